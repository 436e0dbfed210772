#include "model/gguf/ggml_type.hpp"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(ggml_type, known_numbers) {
  int known = 0;
  for (std::uint32_t number = 0; number < 1000; ++number) {
    const ggml_type_traits* found = find_traits(number);
    if (found == nullptr) continue;
    ++known;
    EXPECT_EQ(static_cast<std::uint32_t>(found->type), number);
    EXPECT_EQ(&traits(found->type), found);
    EXPECT_GT(found->block_size, 0u);
    EXPECT_GT(found->type_size, 0u);
  }
  EXPECT_EQ(known, 26);
}

TEST(ggml_type, unknown_numbers) {
  for (const std::uint32_t number : {4U, 5U, 9U, 15U, 24U, 31U, 38U, 41U, 0x80000000U, 0xFFFFFFFFU}) {
    EXPECT_EQ(find_traits(number), nullptr) << number;
  }
}

TEST(ggml_type, sizes) {
  EXPECT_EQ(traits(ggml_type::f32).type_size, 4u);
  EXPECT_EQ(traits(ggml_type::q4_k).name, "Q4_K");
  EXPECT_EQ(traits(ggml_type::q4_k).block_size, 256u);
  EXPECT_EQ(traits(ggml_type::q4_k).type_size, 144u);
}

}  // namespace
}  // namespace kvern
