#include "model/gguf/byte_reader.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "model/gguf/gguf_test_writer.hpp"

namespace kvern {
namespace {

TEST(byte_reader, reads_numbers_and_strings_in_order) {
  const std::string bytes = test::byte_builder().number<std::uint8_t>(7).u32(9).text("abc").text("").bytes();
  byte_reader reader(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(reader.read<std::uint8_t>(), 7);
  EXPECT_EQ(reader.read<std::uint32_t>(), 9u);
  EXPECT_EQ(reader.read_string(), "abc");
  EXPECT_EQ(reader.read_string(), "");
  EXPECT_EQ(reader.left(), 0u);
  EXPECT_EQ(reader.read<std::uint8_t>(), std::nullopt);
  EXPECT_EQ(reader.read_string(), std::nullopt);
}

TEST(byte_reader, stays_in_place_when_bytes_are_missing) {
  const std::string bytes = test::byte_builder().u64(std::numeric_limits<std::uint64_t>::max()).raw("abc").bytes();
  byte_reader reader(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(reader.read_string(), std::nullopt);
  EXPECT_EQ(reader.position(), 0u);
  EXPECT_FALSE(reader.take(12));
  EXPECT_FALSE(reader.take(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(reader.position(), 0u);
  EXPECT_TRUE(reader.take(11));
  EXPECT_EQ(reader.left(), 0u);
}

}  // namespace
}  // namespace kvern
