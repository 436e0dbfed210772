#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

class legacy_types : public testing::TestWithParam<const char*> {};

TEST_P(legacy_types, equal_the_reference_bit_for_bit) { test::expect_reference_bits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(quants, legacy_types, testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
                         [](const auto& type) { return std::string(type.param); });

// MORE
}  // namespace
}  // namespace kvern::gpu
