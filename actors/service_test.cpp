#include "actors/service.hpp"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(service, cache_reasons_have_stable_names) {
  EXPECT_EQ(to_string(cache_reason::empty), "empty");
  EXPECT_EQ(to_string(cache_reason::extends), "extends");
  EXPECT_EQ(to_string(cache_reason::same), "same");
  EXPECT_EQ(to_string(cache_reason::shorter), "shorter");
  EXPECT_EQ(to_string(cache_reason::mismatch), "mismatch");
}

TEST(service, tenant_is_the_kernels_user_id) {
  EXPECT_EQ((peer{.uid = 1000, .gid = 5, .pid = 77}.tenant()), "uid:1000");
}

}  // namespace
}  // namespace kvern
