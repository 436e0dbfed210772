#include "model/gguf/ggml_type.hpp"

#include <array>
#include <cassert>

namespace kvern {

namespace {

constexpr std::array all_traits{
    ggml_type_traits{ggml_type::f32, "F32", 1, 4},
    ggml_type_traits{ggml_type::f16, "F16", 1, 2},
    ggml_type_traits{ggml_type::q4_0, "Q4_0", 32, 18},
    ggml_type_traits{ggml_type::q4_1, "Q4_1", 32, 20},
    ggml_type_traits{ggml_type::q5_0, "Q5_0", 32, 22},
    ggml_type_traits{ggml_type::q5_1, "Q5_1", 32, 24},
    ggml_type_traits{ggml_type::q8_0, "Q8_0", 32, 34},
    ggml_type_traits{ggml_type::q2_k, "Q2_K", 256, 84},
    ggml_type_traits{ggml_type::q3_k, "Q3_K", 256, 110},
    ggml_type_traits{ggml_type::q4_k, "Q4_K", 256, 144},
    ggml_type_traits{ggml_type::q5_k, "Q5_K", 256, 176},
    ggml_type_traits{ggml_type::q6_k, "Q6_K", 256, 210},
    ggml_type_traits{ggml_type::iq2_xxs, "IQ2_XXS", 256, 66},
    ggml_type_traits{ggml_type::iq2_xs, "IQ2_XS", 256, 74},
    ggml_type_traits{ggml_type::iq3_xxs, "IQ3_XXS", 256, 98},
    ggml_type_traits{ggml_type::iq1_s, "IQ1_S", 256, 50},
    ggml_type_traits{ggml_type::iq4_nl, "IQ4_NL", 32, 18},
    ggml_type_traits{ggml_type::iq3_s, "IQ3_S", 256, 110},
    ggml_type_traits{ggml_type::iq2_s, "IQ2_S", 256, 82},
    ggml_type_traits{ggml_type::iq4_xs, "IQ4_XS", 256, 136},
    ggml_type_traits{ggml_type::iq1_m, "IQ1_M", 256, 56},
    ggml_type_traits{ggml_type::bf16, "BF16", 1, 2},
    ggml_type_traits{ggml_type::tq1_0, "TQ1_0", 256, 54},
    ggml_type_traits{ggml_type::tq2_0, "TQ2_0", 256, 66},
    ggml_type_traits{ggml_type::mxfp4, "MXFP4", 32, 17},
    ggml_type_traits{ggml_type::nvfp4, "NVFP4", 64, 36},
};

constexpr std::uint32_t type_numbers = 41;

constexpr auto traits_by_number = [] {
  std::array<const ggml_type_traits*, type_numbers> table{};
  for (const auto& t : all_traits) table[static_cast<std::uint32_t>(t.type)] = &t;
  return table;
}();

}  // namespace

const ggml_type_traits* find_traits(std::uint32_t type_number) {
  return type_number < type_numbers ? traits_by_number[type_number] : nullptr;
}

const ggml_type_traits& traits(ggml_type type) {
  const auto* found = find_traits(static_cast<std::uint32_t>(type));
  assert(found != nullptr);
  return *found;
}

}  // namespace kvern
