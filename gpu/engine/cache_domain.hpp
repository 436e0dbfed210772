#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvern::gpu {

/// One thing that decides who may read a line and what its bits are, e.g. {"tenant", "uid:1000"}.
struct domain_part {
  std::string_view tag;
  std::string_view value;
};

/// The parts as one string: each tag and value behind its length (8 bytes, little-endian), so that no two lists of
/// parts give one string.
std::string encode_domain(std::span<const domain_part> parts);

}  // namespace kvern::gpu
