#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvern {

/// Storage types of a GGUF tensor, numbered as in the file.
enum class ggml_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
};

/// A block is the unit of storage: `block_size` consecutive elements of a row in `type_size` bytes.
struct ggml_type_traits {
  ggml_type type;
  std::string_view name;  ///< as the field writes it, e.g. "Q4_K"
  std::uint32_t block_size;
  std::uint32_t type_size;
};

/// Null for a number that is no type this project reads.
const ggml_type_traits* find_traits(std::uint32_t type_number);
const ggml_type_traits& traits(ggml_type type);

}  // namespace kvern
