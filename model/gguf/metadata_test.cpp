#include "model/gguf/metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "model/gguf/gguf_test_writer.hpp"
#include "model/gguf/parse.hpp"
#include "model/gguf/quoted_name.hpp"

namespace kvern {
namespace {

using test::gguf_test_writer;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto int64_max = std::numeric_limits<std::int64_t>::max();

/// Keys of a file built by `writer`, with the bytes they point into.
struct built_keys {
  explicit built_keys(const gguf_test_writer& writer) : bytes(writer.build()) {
    auto parsed = parse_gguf(std::as_bytes(std::span(bytes)), "'m.gguf'");
    EXPECT_TRUE(parsed) << parsed.error().message;
    if (parsed) keys = std::move(parsed->keys);
  }
  std::string bytes;
  metadata keys;
};

template <class T>
void expect_invalid(const result<T>& found, std::string_view key, std::string_view words) {
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, "model_invalid");
  EXPECT_THAT(found.error().message, HasSubstr("'m.gguf'"));
  EXPECT_THAT(found.error().message, HasSubstr(quoted_name(key)));
  EXPECT_THAT(found.error().message, HasSubstr(std::string(words)));
}

TEST(metadata, integers_of_every_width) {
  const built_keys built(gguf_test_writer()
                             .key<std::uint8_t>("u8", 200)
                             .key<std::int8_t>("i8", 100)
                             .key<std::uint16_t>("u16", 60000)
                             .key<std::int16_t>("i16", 30000)
                             .key<std::uint32_t>("u32", 4000000000)
                             .key<std::int32_t>("i32", 2000000000)
                             .key<std::uint64_t>("u64", UINT64_MAX)
                             .key<std::int64_t>("i64", int64_max));
  const auto& keys = built.keys;
  EXPECT_EQ(keys.get_uint("u8"), 200u);
  EXPECT_EQ(keys.get_uint("i8"), 100u);
  EXPECT_EQ(keys.get_uint("u16"), 60000u);
  EXPECT_EQ(keys.get_uint("i16"), 30000u);
  EXPECT_EQ(keys.get_uint("u32"), 4000000000u);
  EXPECT_EQ(keys.get_uint("i32"), 2000000000u);
  EXPECT_EQ(keys.get_uint("u64"), UINT64_MAX);
  EXPECT_EQ(keys.get_uint("i64"), static_cast<std::uint64_t>(int64_max));
}

TEST(metadata, negative_integers_are_no_uint) {
  const built_keys built(gguf_test_writer()
                             .key<std::int8_t>("i8", -1)
                             .key<std::int16_t>("i16", -1)
                             .key<std::int32_t>("i32", -1)
                             .key<std::int64_t>("i64", INT64_MIN));
  for (const auto* key : {"i8", "i16", "i32", "i64"}) expect_invalid(built.keys.find_uint(key), key, "out of range");
}

TEST(metadata, floats_bools_and_strings) {
  const built_keys built(gguf_test_writer()
                             .key("f32", 1e-5F)
                             .key("f64", 0.1)
                             .key("yes", true)
                             .key("no", false)
                             .key("empty", "")
                             .key("text", std::string_view("a\0b", 3)));
  EXPECT_EQ(built.keys.get_float("f32"), static_cast<double>(1e-5F));
  EXPECT_EQ(built.keys.get_float("f64"), 0.1);
  EXPECT_EQ(**built.keys.find_bool("yes"), true);
  EXPECT_EQ(**built.keys.find_bool("no"), false);
  EXPECT_EQ(built.keys.get_string("empty"), "");
  EXPECT_EQ(built.keys.get_string("text"), std::string_view("a\0b", 3));
}

TEST(metadata, arrays) {
  const std::array<std::string, 3> texts{"one", "", "three"};
  const built_keys built(gguf_test_writer()
                             .strings("texts", texts)
                             .array<std::uint8_t>("u8", {0, 255})
                             .array<std::int8_t>("i8", {-128, 127})
                             .array<std::uint16_t>("u16", {65535})
                             .array<std::int16_t>("i16", {-32768})
                             .array<std::uint32_t>("u32", {4294967295})
                             .array<std::int32_t>("i32", {-1, 7})
                             .array<std::uint64_t>("u64", {static_cast<std::uint64_t>(int64_max)})
                             .array<std::int64_t>("i64", {INT64_MIN, int64_max})
                             .array<bool>("bools", {true, false})
                             .array<float>("f32", {0.5F, -2.F})
                             .array<double>("f64", {0.25, std::numeric_limits<double>::infinity()})
                             .array<std::int32_t>("none", {}));
  const auto& keys = built.keys;
  EXPECT_THAT(**keys.find_strings("texts"), ElementsAre("one", "", "three"));
  EXPECT_THAT(**keys.find_ints("u8"), ElementsAre(0, 255));
  EXPECT_THAT(**keys.find_ints("i8"), ElementsAre(-128, 127));
  EXPECT_THAT(**keys.find_ints("u16"), ElementsAre(65535));
  EXPECT_THAT(**keys.find_ints("i16"), ElementsAre(-32768));
  EXPECT_THAT(**keys.find_ints("u32"), ElementsAre(4294967295));
  EXPECT_THAT(**keys.find_ints("i32"), ElementsAre(-1, 7));
  EXPECT_THAT(**keys.find_ints("u64"), ElementsAre(int64_max));
  EXPECT_THAT(**keys.find_ints("i64"), ElementsAre(INT64_MIN, int64_max));
  EXPECT_THAT(**keys.find_ints("bools"), ElementsAre(1, 0));
  EXPECT_THAT(**keys.find_floats("f32"), ElementsAre(0.5F, -2.F));
  EXPECT_THAT(**keys.find_floats("f64"), ElementsAre(0.25F, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(**keys.find_ints("none"), ElementsAre());
}

TEST(metadata, array_values_out_of_range) {
  const built_keys built(gguf_test_writer().array<std::uint64_t>("u64", {1, 1ULL << 63}).array<double>("f64", {1e300}));
  expect_invalid(built.keys.find_ints("u64"), "u64", "out of range");
  expect_invalid(built.keys.find_floats("f64"), "f64", "out of range");
}

TEST(metadata, wrong_types_name_both_types) {
  const std::array<std::string, 1> texts{"x"};
  const built_keys built(gguf_test_writer()
                             .key("text", "x")
                             .key<std::uint32_t>("u32", 1)
                             .key("f32", 1.F)
                             .key("yes", true)
                             .strings("texts", texts)
                             .array<float>("floats", {1.F}));
  const auto& keys = built.keys;
  expect_invalid(keys.find_uint("text"), "text", "string where an integer");
  expect_invalid(keys.find_uint("f32"), "f32", "float32 where an integer");
  expect_invalid(keys.find_uint("yes"), "yes", "bool where an integer");
  expect_invalid(keys.find_uint("floats"), "floats", "array of float32");
  expect_invalid(keys.find_float("u32"), "u32", "uint32 where a float");
  expect_invalid(keys.find_bool("u32"), "u32", "uint32 where a bool");
  expect_invalid(keys.find_string("u32"), "u32", "uint32 where a string");
  expect_invalid(keys.find_strings("text"), "text", "array of strings");
  expect_invalid(keys.find_strings("floats"), "floats", "array of strings");
  expect_invalid(keys.find_ints("floats"), "floats", "array of integers");
  expect_invalid(keys.find_ints("texts"), "texts", "array of integers");
  expect_invalid(keys.find_ints("u32"), "u32", "array of integers");
  expect_invalid(keys.find_floats("f32"), "f32", "array of floats");
  expect_invalid(keys.find_floats("texts"), "texts", "array of floats");
}

TEST(metadata, absent_keys) {
  const built_keys built(gguf_test_writer().key("here", true));
  const auto& keys = built.keys;
  EXPECT_EQ(*keys.find_uint("no"), std::nullopt);
  EXPECT_EQ(*keys.find_float("no"), std::nullopt);
  EXPECT_EQ(*keys.find_bool("no"), std::nullopt);
  EXPECT_EQ(*keys.find_string("no"), std::nullopt);
  EXPECT_EQ(*keys.find_strings("no"), std::nullopt);
  EXPECT_EQ(*keys.find_ints("no"), std::nullopt);
  EXPECT_EQ(*keys.find_floats("no"), std::nullopt);
  expect_invalid(keys.get_uint("no"), "no", "missing");
  expect_invalid(keys.get_float("no"), "no", "missing");
  expect_invalid(keys.get_string("no"), "no", "missing");
}

TEST(metadata, a_key_that_stands_twice_is_refused) {
  const std::string bytes = gguf_test_writer().key("b", true).key("a", true).key("b", false).build();
  expect_invalid(parse_gguf(std::as_bytes(std::span(bytes)), "'m.gguf'"), "b", "twice");
}

}  // namespace
}  // namespace kvern
