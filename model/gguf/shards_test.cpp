#include "model/gguf/shards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "model/gguf/gguf.hpp"
#include "model/gguf/gguf_test_writer.hpp"
#include "tests/support/golden.hpp"

namespace kvern {
namespace {

using test::gguf_test_writer;
using testing::HasSubstr;
using testing::Not;

TEST(shard_name, parses_and_writes) {
  const auto name = shard_name::parse("model-q4-00002-of-00003.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->base, "model-q4");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 3u);
  EXPECT_EQ(name->of(1), "model-q4-00001-of-00003.gguf");
  EXPECT_EQ(shard_name::parse("a-00099-of-99999.gguf")->of(99999), "a-99999-of-99999.gguf");
}

TEST(shard_name, refuses_other_names) {
  for (const auto* name :
       {"", "model.gguf", "-00001-of-00003.gguf", "m-00001-of-00003", "m-0001-of-0003.gguf", "m-00000-of-00003.gguf",
        "m-00004-of-00003.gguf", "m-00001-of-0000x.gguf", "m-+0001-of-00003.gguf", "m-00001_of-00003.gguf",
        "m00001-of-00003.gguf", "m-00001-of-00003.gguf.part", ".gguf"}) {
    EXPECT_FALSE(shard_name::parse(name)) << name;
  }
}

class shards : public testing::Test {
 protected:
  static std::string name(int number, int count = 3) {
    return "big-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
  }

  std::filesystem::path path(std::string_view file) const { return folder_.path() / file; }

  /// Shard `number` (1-based) of a good split of five tensors in three files: two, two and one.
  static gguf_test_writer shard(int number) { return shard(number, 3, 5); }

  static gguf_test_writer shard(int number, std::uint16_t count, std::int32_t tensors) {
    auto writer = split_keys(number, count, tensors);
    if (number == 1) writer.key("general.architecture", "llama");
    const std::vector<float> value{static_cast<float>(number)};
    writer.tensor("first." + std::to_string(number), {1}, value);
    if (number != 3) writer.tensor("second." + std::to_string(number), {1}, value);
    return writer;
  }

  static gguf_test_writer split_keys(int number, std::uint16_t count, std::int32_t tensors) {
    return gguf_test_writer()
        .key<std::uint16_t>("split.no", static_cast<std::uint16_t>(number - 1))
        .key("split.count", count)
        .key("split.tensors.count", tensors);
  }

  void write_all() const {
    for (int number = 1; number <= 3; ++number) shard(number).write(path(name(number)));
  }

  void expect_failure(std::string_view file, std::string_view code, std::string_view words) const {
    const auto opened = gguf_file::open(path(file));
    ASSERT_FALSE(opened) << words;
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(std::string(words)));
    EXPECT_THAT(opened.error().message, Not(HasSubstr(folder_.path().string())));
  }

  test::scratch_folder folder_;
};

TEST_F(shards, open_by_the_first) {
  write_all();
  const auto opened = gguf_file::open(path(name(1)));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& file = **opened;
  EXPECT_EQ(file.tensors().size(), 5u);
  for (int number = 1; number <= 3; ++number) {
    const gguf_tensor* tensor = file.find_tensor("first." + std::to_string(number));
    ASSERT_NE(tensor, nullptr);
    float value = 0;
    std::memcpy(&value, tensor->data.data(), sizeof value);
    EXPECT_EQ(value, static_cast<float>(number));
  }
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.file_name(), name(1));
  std::uint64_t bytes = 0;
  for (int number = 1; number <= 3; ++number) bytes += std::filesystem::file_size(path(name(number)));
  EXPECT_EQ(file.file_bytes(), bytes);
}

TEST_F(shards, open_relative_to_the_working_folder) {
  write_all();
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const auto opened = gguf_file::open(name(1));
  std::filesystem::current_path(before);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->tensors().size(), 5u);
}

TEST_F(shards, a_missing_one_is_named) {
  write_all();
  std::filesystem::remove(path(name(2)));
  expect_failure(name(1), "model_missing", name(2));
}

TEST_F(shards, another_than_the_first_tells_which_to_open) {
  write_all();
  expect_failure(name(2), "model_invalid", "shard 2 of 3; open the model by '" + name(1) + "'");
  expect_failure(name(3), "model_invalid", name(1));
}

TEST_F(shards, counts_that_disagree) {
  write_all();
  shard(3, 4, 5).write(path(name(3)));
  expect_failure(name(1), "model_invalid", "'split.count' is 4 and the first shard's is 3");
  shard(3, 3, 6).write(path(name(3)));
  expect_failure(name(1), "model_invalid", "'split.tensors.count' is 6 and the first shard's is 5");
  for (int number = 1; number <= 3; ++number) shard(number, 3, 6).write(path(name(number)));
  expect_failure(name(1), "model_invalid", "'split.tensors.count' is 6 and the 3 shards hold 5 tensors");
}

TEST_F(shards, a_shard_under_another_number) {
  write_all();
  std::filesystem::copy_file(path(name(2)), path(name(3)), std::filesystem::copy_options::overwrite_existing);
  expect_failure(name(1), "model_invalid", "'split.no' is not 2");
}

TEST_F(shards, a_whole_file_in_a_shards_place) {
  write_all();
  gguf_test_writer().tensor("x", {1}, std::vector{1.F}).write(path(name(2)));
  expect_failure(name(1), "model_invalid", "'split.count' is 0");
}

TEST_F(shards, a_damaged_one_is_named) {
  write_all();
  std::filesystem::resize_file(path(name(2)), std::filesystem::file_size(path(name(2))) - 1);
  expect_failure(name(1), "model_truncated", name(2));
}

TEST_F(shards, the_same_tensor_in_two) {
  write_all();
  split_keys(3, 3, 5).tensor("first.1", {1}, std::vector{1.F}).write(path(name(3)));
  expect_failure(name(1), "model_invalid", "tensor 'first.1' stands twice");
}

TEST_F(shards, keys_that_are_missing_or_wrong) {
  gguf_test_writer().key<std::uint16_t>("split.count", 3).write(path(name(1)));
  expect_failure(name(1), "model_invalid", "split.no");
  gguf_test_writer().key<std::uint16_t>("split.count", 3).key<std::uint16_t>("split.no", 0).write(path(name(1)));
  expect_failure(name(1), "model_invalid", "split.tensors.count");
  gguf_test_writer().key("split.count", "3").write(path(name(1)));
  expect_failure(name(1), "model_invalid", "'split.count' is of type string");
  gguf_test_writer().key<std::int16_t>("split.count", -1).write(path(name(1)));
  expect_failure(name(1), "model_invalid", "'split.count' is out of range");
  gguf_test_writer()
      .key<std::uint64_t>("split.count", UINT64_MAX)
      .key<std::uint16_t>("split.no", 0)
      .write(path("m.gguf"));
  expect_failure("m.gguf", "model_invalid", "above the limit");
}

TEST_F(shards, a_name_that_disagrees_with_the_keys) {
  write_all();
  std::filesystem::rename(path(name(1)), path("renamed.gguf"));
  expect_failure("renamed.gguf", "model_invalid", "NAME-00001-of-00003.gguf");
  std::filesystem::rename(path("renamed.gguf"), path(name(1, 4)));
  expect_failure(name(1, 4), "model_invalid", "NAME-00001-of-00003.gguf");
}

TEST_F(shards, whole_files_are_not_taken_for_shards) {
  const auto whole = gguf_test_writer().tensor("t", {1}, std::vector{1.F});
  whole.write(path(name(1)));
  EXPECT_TRUE(gguf_file::open(path(name(1)))) << "a shard's name without split keys";
  split_keys(1, 1, 1).tensor("t", {1}, std::vector{1.F}).write(path("one.gguf"));
  EXPECT_TRUE(gguf_file::open(path("one.gguf"))) << "split.count 1";
  split_keys(1, 0, 1).tensor("t", {1}, std::vector{1.F}).write(path("merged.gguf"));
  EXPECT_TRUE(gguf_file::open(path("merged.gguf"))) << "split.count 0, as a merge leaves it";
  split_keys(1, 3, 1).tensor("t", {1}, std::vector{1.F}).write(path("derived.gguf"));
  EXPECT_TRUE(gguf_file::open(path("derived.gguf"))) << "left-over keys in a file that holds every tensor";
}

}  // namespace
}  // namespace kvern
