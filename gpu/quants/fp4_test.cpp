#include <gtest/gtest.h>

#include <string>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

class fp4_types : public testing::TestWithParam<const char*> {};

TEST_P(fp4_types, equal_the_reference_bit_for_bit) { test::expect_reference_bits(GetParam()); }

INSTANTIATE_TEST_SUITE_P(quants, fp4_types, testing::Values("MXFP4", "NVFP4"),
                         [](const auto& type) { return std::string(type.param); });

// MORE
}  // namespace
}  // namespace kvern::gpu
