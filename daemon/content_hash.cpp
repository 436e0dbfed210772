#include "daemon/content_hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <vector>

namespace kvern::daemon {

std::string content_hash(std::span<const std::span<const std::byte>> files) {
  std::vector<XXH128_canonical_t> hashes(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    XXH128_canonicalFromHash(&hashes[i], XXH3_128bits(files[i].data(), files[i].size()));
  XXH128_canonical_t whole{};
  if (hashes.size() == 1) {
    whole = hashes.front();
  } else {
    XXH128_canonicalFromHash(&whole, XXH3_128bits(hashes.data(), hashes.size() * sizeof(hashes[0])));
  }
  std::string text;
  for (const auto byte : whole.digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace kvern::daemon
