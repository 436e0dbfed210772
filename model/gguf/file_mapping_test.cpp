#include "model/gguf/file_mapping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "model/gguf/gguf_test_writer.hpp"
#include "tests/support/golden.hpp"

namespace kvern {
namespace {

using testing::HasSubstr;

/// While it lives, this thread meets file permissions as an ordinary user, even when the tests run as root.
class as_nobody {
 public:
  as_nobody() : before_(static_cast<uid_t>(::setfsuid(::geteuid() == 0 ? 65534 : ::geteuid()))) {}
  ~as_nobody() { ::setfsuid(before_); }
  as_nobody(const as_nobody&) = delete;
  as_nobody& operator=(const as_nobody&) = delete;

 private:
  uid_t before_;
};

class file_mapping_test : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return folder_.path() / name; }
  test::scratch_folder folder_;
};

TEST_F(file_mapping_test, maps_the_bytes) {
  test::write_file(path("f"), "some bytes");
  auto mapping = file_mapping::open(path("f"));
  ASSERT_TRUE(mapping);
  EXPECT_EQ(std::memcmp(mapping->bytes().data(), "some bytes", 10), 0);
  const file_mapping moved = std::move(*mapping);
  EXPECT_EQ(moved.bytes().size(), 10u);
  std::filesystem::remove(path("f"));
  EXPECT_EQ(moved.bytes()[9], std::byte{'s'}) << "a removed file stays readable";
}

TEST_F(file_mapping_test, an_empty_file_is_no_bytes) {
  test::write_file(path("f"), "");
  const auto mapping = file_mapping::open(path("f"));
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(mapping->bytes().empty());
}

TEST_F(file_mapping_test, follows_links) {
  test::write_file(path("f"), "x");
  std::filesystem::create_symlink("f", path("link"));
  EXPECT_TRUE(file_mapping::open(path("link")));
  std::filesystem::create_symlink("gone", path("dangling"));
  EXPECT_EQ(file_mapping::open(path("dangling")).error().code, "model_missing");
}

TEST_F(file_mapping_test, a_fifo_is_refused_without_waiting) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const auto mapping = file_mapping::open(path("fifo"));
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, "model_unreadable");
  EXPECT_THAT(mapping.error().message, HasSubstr("'fifo' is not a regular file"));
}

TEST_F(file_mapping_test, a_file_that_may_not_be_read) {
  test::write_file(path("f"), "x");
  ASSERT_EQ(::chmod(path("f").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const as_nobody user;
  const auto mapping = file_mapping::open(path("f"));
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, "model_unreadable");
  EXPECT_THAT(mapping.error().message, HasSubstr("may not read 'f'"));
}

TEST_F(file_mapping_test, the_folder_that_bars_the_way_is_named) {
  std::filesystem::create_directories(path("barred/inner"));
  test::write_file(path("barred/inner/f"), "x");
  ASSERT_EQ(::chmod(path("barred").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  result<file_mapping> mapping = fail("", "");
  {
    const as_nobody user;
    mapping = file_mapping::open(path("barred/inner/f"));
  }
  ASSERT_EQ(::chmod(path("barred").c_str(), 0755), 0);
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, "model_unreadable");
  EXPECT_THAT(mapping.error().message, HasSubstr("may not enter the folder 'barred'"));
  EXPECT_THAT(mapping.error().message, testing::Not(HasSubstr("inner")));
}

TEST_F(file_mapping_test, forgetting_keeps_the_bytes) {
  std::string data(100000, 'x');
  data[50000] = 'y';
  test::write_file(path("f"), data);
  const auto mapping = file_mapping::open(path("f"));
  ASSERT_TRUE(mapping);
  file_mapping::forget(mapping->bytes());
  file_mapping::forget(mapping->bytes().subspan(1, 10));
  file_mapping::forget({});
  EXPECT_EQ(mapping->bytes()[50000], std::byte{'y'});
}

TEST(file_label, is_the_last_component) {
  EXPECT_EQ(file_label("/a/b.gguf"), "'b.gguf'");
  EXPECT_EQ(file_label("b.gguf"), "'b.gguf'");
  EXPECT_EQ(file_label("/a/folder/"), "'folder'");
}

}  // namespace
}  // namespace kvern
