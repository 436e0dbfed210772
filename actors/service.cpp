#include "actors/service.hpp"

namespace kvern {

std::string_view to_string(cache_reason reason) {
  switch (reason) {
    case cache_reason::empty:
      return "empty";
    case cache_reason::extends:
      return "extends";
    case cache_reason::same:
      return "same";
    case cache_reason::shorter:
      return "shorter";
    case cache_reason::mismatch:
      return "mismatch";
  }
  return "unknown";
}

}  // namespace kvern
