#include <gtest/gtest.h>

#include <string>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

class k_quants_types : public testing::TestWithParam<const char*> {};

TEST_P(k_quants_types, equal_the_reference_bit_for_bit) { test::expect_reference_bits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(quants, k_quants_types, testing::Values("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& type) { return std::string(type.param); });

// MORE
}  // namespace
}  // namespace kvern::gpu
