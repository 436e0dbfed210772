#include <gtest/gtest.h>

#include <string>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

class ternary_types : public testing::TestWithParam<const char*> {};

TEST_P(ternary_types, equal_the_reference_bit_for_bit) { test::expect_reference_bits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(quants, ternary_types, testing::Values("TQ1_0", "TQ2_0"),
                         [](const auto& type) { return std::string(type.param); });

// MORE
}  // namespace
}  // namespace kvern::gpu
