#include "actors/session_id.hpp"

#include <sys/random.h>

#include <array>

namespace kvern::actors {

std::string make_session_id() {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) return {};
  constexpr char digits[] = "0123456789abcdef";
  std::string id = "s-";
  for (const auto byte : random) {
    id += digits[byte >> 4];
    id += digits[byte & 15];
  }
  return id;
}

}  // namespace kvern::actors
