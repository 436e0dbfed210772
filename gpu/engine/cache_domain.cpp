#include "gpu/engine/cache_domain.hpp"

#include <fmt/format.h>

namespace kvern::gpu {

std::string encode_domain(std::span<const domain_part> parts) {
  std::string out;
  for (const domain_part& part : parts)
    out += fmt::format("{}:{}={}:{};", part.tag.size(), part.tag, part.value.size(), part.value);
  return out;
}

}  // namespace kvern::gpu
