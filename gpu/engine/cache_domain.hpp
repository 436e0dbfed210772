#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvern::gpu {

/// One thing that decides who may read a line and what its bits are, e.g. {"tenant", "uid:1000"}.
struct domain_part {
  std::string_view tag;
  std::string_view value;
};

/// The parts as one text. Each tag and value stands behind its length, so that no two lists of parts give one text.
std::string encode_domain(std::span<const domain_part> parts);

}  // namespace kvern::gpu
