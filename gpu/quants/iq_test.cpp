#include <gtest/gtest.h>

#include <string>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

class iq_types : public testing::TestWithParam<const char*> {};

TEST_P(iq_types, equal_the_reference_bit_for_bit) { test::expect_reference_bits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(quants, iq_types,
                         testing::Values("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL",
                                         "IQ4_XS"),
                         [](const auto& type) { return std::string(type.param); });

// MORE
}  // namespace
}  // namespace kvern::gpu
