#include "gpu/engine/cache_domain.hpp"

namespace kvern::gpu {
namespace {

void append(std::string& out, std::string_view text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(size >> shift & 0xff));
  out.append(text);
}

}  // namespace

std::string encode_domain(std::span<const domain_part> parts) {
  std::string out;
  for (const domain_part& part : parts) {
    append(out, part.tag);
    append(out, part.value);
  }
  return out;
}

}  // namespace kvern::gpu
