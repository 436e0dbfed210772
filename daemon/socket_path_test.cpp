#include "daemon/socket_path.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/golden.hpp"

namespace kvern::daemon {
namespace {

TEST(socket_path, the_environment_names_it_in_order) {
  setenv("KVERN_SOCKET", "/a/b", 1);
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(default_socket(), "/a/b");
  setenv("KVERN_SOCKET", "", 1);
  EXPECT_EQ(default_socket(), "/run/user/7/kvern.sock");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(default_socket(), "/run/kvern/kvern.sock");
}

TEST(socket_path, length_and_folder_are_checked) {
  const test::scratch_folder folder;
  const auto base = folder.path().string() + "/";
  EXPECT_TRUE(check_socket_path(base + std::string(107 - base.size(), 's')));
  const auto longer = check_socket_path(base + std::string(108 - base.size(), 's'));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, "socket_path_invalid");
  EXPECT_FALSE(check_socket_path(base + "missing/s"));
  EXPECT_TRUE(check_socket_path("relative.sock"));
}

}  // namespace
}  // namespace kvern::daemon
