#include "model/gguf/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf_test_writer.hpp"

namespace kvern {
namespace {

using test::byte_builder;
using test::gguf_test_writer;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t string_type = 8;
constexpr std::uint32_t array_type = 9;
constexpr std::uint64_t huge = 1ULL << 63;

/// Parsed from a heap block of exactly the file's size, so that AddressSanitizer sees a read past the end.
class parsed_bytes {
 public:
  explicit parsed_bytes(std::string_view bytes) : copy_(new std::byte[bytes.size()]) {
    if (!bytes.empty()) std::memcpy(copy_.get(), bytes.data(), bytes.size());
    parsed_ = parse_gguf({copy_.get(), bytes.size()}, "'m.gguf'");
  }
  const result<parsed_file>& operator*() const { return parsed_; }
  const result<parsed_file>* operator->() const { return &parsed_; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  result<parsed_file> parsed_;
};

void expect_refused(std::string_view bytes, std::string_view code, std::string_view words) {
  const parsed_bytes parsed(bytes);
  ASSERT_FALSE(*parsed) << "should be refused: " << words;
  EXPECT_EQ(parsed->error().code, code) << parsed->error().message;
  EXPECT_THAT(parsed->error().message, StartsWith("'m.gguf'"));
  EXPECT_THAT(parsed->error().message, HasSubstr(std::string(words)));
}

void expect_loads(std::string_view bytes) {
  const parsed_bytes parsed(bytes);
  EXPECT_TRUE(*parsed) << parsed->error().message;
}

/// The head of a version 3 file.
byte_builder head(std::uint64_t tensors, std::uint64_t keys) {
  return byte_builder().raw("GGUF").u32(3).u64(tensors).u64(keys);
}

/// A file of one tensor record as given, with 64 bytes of data.
std::string one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type = 0, std::uint64_t offset = 0) {
  auto file = head(1, 0);
  file.text("t").u32(static_cast<std::uint32_t>(dims.size()));
  for (const auto dim : dims) file.u64(dim);
  return file.u32(type).u64(offset).pad(32).raw(std::string(64, '\0')).bytes();
}

std::string good_file() {
  return gguf_test_writer()
      .key("general.architecture", "llama")
      .key<std::uint32_t>("llama.block_count", 1)
      .array<float>("tokenizer.ggml.scores", {0, -1, -2})
      .tensor("a", ggml_type::f32, {2, 3}, std::string(24, 'a'))
      .tensor("b", ggml_type::q4_0, {64}, std::string(36, 'b'))
      .build();
}

TEST(parse, versions_2_and_3) {
  expect_loads(gguf_test_writer().version(2).key("k", true).build());
  expect_loads(gguf_test_writer().version(3).key("k", true).build());
  for (const std::uint32_t version : {0U, 1U, 4U, 0xFFFFU}) {
    expect_refused(gguf_test_writer().version(version).build(), "model_unsupported",
                   "version " + std::to_string(version));
  }
}

TEST(parse, big_endian_is_called_the_other_byte_order) {
  for (const std::uint32_t version : {0x02000000U, 0x03000000U}) {
    expect_refused(gguf_test_writer().version(version).build(), "model_unsupported", "other byte order");
  }
}

TEST(parse, no_gguf) {
  expect_refused("", "model_truncated", "empty");
  expect_refused("GG", "model_truncated", "magic");
  expect_refused("GGML", "model_invalid", "not a GGUF");
  expect_refused("PK", "model_invalid", "not a GGUF");
  expect_refused(std::string_view("\0\0\0\0\0\0", 6), "model_invalid", "not a GGUF");
}

TEST(parse, a_file_without_keys_or_tensors_loads) { expect_loads(head(0, 0).bytes()); }

TEST(parse, lengths_past_the_end_are_refused_at_once) {
  // 32 bytes: one key whose name claims 2^48 - 1 bytes.
  expect_refused(head(0, 1).u64(0xFFFFFFFFFFFF).bytes(), "model_truncated", "key count");
  expect_refused(head(0, 1).u64(0xFFFFFFFFFFFF).raw(std::string(16, 'x')).bytes(), "model_truncated", "name of key 0");
  expect_refused(head(0, 1).u64(huge).raw(std::string(16, 'x')).bytes(), "model_truncated", "name of key 0");
  expect_refused(head(0, 1).u64(std::numeric_limits<std::uint64_t>::max()).raw(std::string(16, 'x')).bytes(),
                 "model_truncated", "name of key 0");
  for (const std::uint64_t length : {huge, std::uint64_t{17}, std::numeric_limits<std::uint64_t>::max()}) {
    expect_refused(head(0, 1).text("k").u32(string_type).u64(length).raw(std::string(16, 'x')).bytes(),
                   "model_truncated", "string of key 'k'");
  }
}

TEST(parse, array_lengths_past_the_end_are_refused_at_once) {
  for (std::uint32_t element = 0; element <= 12; ++element) {
    if (element == array_type) continue;
    for (const std::uint64_t length : {huge, huge + 1, huge / 2, (huge >> 2) + 1, std::uint64_t{200}}) {
      const auto start = std::chrono::steady_clock::now();
      expect_refused(head(0, 1).text("k").u32(array_type).u32(element).u64(length).raw(std::string(24, '\0')).bytes(),
                     "model_truncated", "array length of key 'k'");
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    }
  }
  // Three strings claimed, one and a half there.
  expect_refused(
      head(0, 1).text("k").u32(array_type).u32(string_type).u64(3).text("one").u64(9).raw("two......").bytes(),
      "model_truncated", "string 2 of key 'k'");
}

TEST(parse, arrays_of_arrays_are_refused) {
  for (const std::uint64_t length : {std::uint64_t{1}, huge / 2}) {
    expect_refused(head(0, 1).text("k").u32(array_type).u32(array_type).u64(length).raw(std::string(64, '\0')).bytes(),
                   "model_unsupported", "'k' is an array of arrays");
  }
}

TEST(parse, absurd_counts_are_refused_at_once) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t count : {huge, most, most / sizeof(gguf_tensor), most / sizeof(gguf_tensor) - 1,
                                    std::uint64_t{1} << 32, std::uint64_t{4}}) {
    expect_refused(head(0, count).raw(std::string(40, '\0')).bytes(), "model_truncated", "n_kv");
    expect_refused(head(count, 0).raw(std::string(40, '\0')).bytes(), "model_truncated", "n_tensors");
  }
}

TEST(parse, unknown_value_types) {
  for (const std::uint32_t type : {13U, 255U, 0xFFFFFFFFU}) {
    expect_refused(head(0, 1).text("k").u32(type).raw(std::string(16, '\0')).bytes(), "model_invalid",
                   "unknown type " + std::to_string(type));
    expect_refused(head(0, 1).text("k").u32(array_type).u32(type).u64(1).raw(std::string(16, '\0')).bytes(),
                   "model_invalid", "unknown type " + std::to_string(type));
  }
}

TEST(parse, bools_are_0_or_1) {
  expect_refused(gguf_test_writer().raw_key("k", 7, "\x02").build(), "model_invalid", "bool of key 'k'");
  expect_refused(gguf_test_writer().array<bool>("ok", {true}).raw_key("k", 7, "\xFF").build(), "model_invalid", "'k'");
}

TEST(parse, empty_and_overlong_key_names) {
  expect_refused(gguf_test_writer().key("", true).build(), "model_invalid", "name of key 0");
  expect_refused(gguf_test_writer().key(std::string(65536, 'k'), true).build(), "model_invalid", "name of key 0");
  expect_loads(gguf_test_writer().key(std::string(65535, 'k'), true).build());
}

TEST(parse, alignment) {
  for (const std::uint32_t good : {8U, 16U, 32U, 64U, 4096U, 1U << 20}) {
    expect_loads(gguf_test_writer()
                     .alignment(good)
                     .tensor("t", ggml_type::f32, {1}, "abcd")
                     .tensor("u", {1}, std::vector{1.F})
                     .build());
  }
  for (const std::uint32_t bad : {0U, 1U, 3U, 12U, 33U, 1U << 21, 0x80000000U, 0xFFFFFFFFU}) {
    expect_refused(gguf_test_writer().key("general.alignment", bad).tensor("t", ggml_type::f32, {1}, "abcd").build(),
                   "model_invalid", "'general.alignment' is " + std::to_string(bad));
    expect_refused(gguf_test_writer().key("general.alignment", bad).build(), "model_invalid", "general.alignment");
  }
  expect_refused(gguf_test_writer().key<std::int32_t>("general.alignment", 32).build(), "model_invalid", "int32");
  expect_refused(gguf_test_writer().key<std::uint64_t>("general.alignment", 32).build(), "model_invalid", "uint64");
  expect_refused(gguf_test_writer().key("general.alignment", "32").build(), "model_invalid", "string");
}

TEST(parse, dims) {
  expect_loads(one_tensor({4}));
  expect_loads(one_tensor({4, 1, 1, 1}));
  expect_loads(one_tensor({2, 2, 2, 2}));
  expect_refused(one_tensor({4, 0}), "model_invalid", "a dim of tensor 't' is 0");
  expect_refused(one_tensor({0}), "model_invalid", "a dim of tensor 't' is 0");
  expect_refused(one_tensor({0, huge}), "model_invalid", "tensor 't'");
  expect_refused(one_tensor({1, 1, 1, 1, 1}), "model_invalid", "n_dims of tensor 't' is 5");
  const auto with_n_dims = [](std::uint32_t n) {
    return head(1, 0).text("t").u32(n).raw(std::string(128, '\1')).bytes();
  };
  expect_refused(with_n_dims(0), "model_invalid", "n_dims of tensor 't' is 0");
  expect_refused(with_n_dims(0xFFFFFFFF), "model_invalid", "n_dims of tensor 't' is 4294967295");
}

TEST(parse, products_that_wrap_are_refused) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  expect_refused(one_tensor({most, 2}), "model_invalid", "multiply");
  expect_refused(one_tensor({2, most}), "model_invalid", "multiply");
  expect_refused(one_tensor({1ULL << 32, 1ULL << 32}), "model_invalid", "multiply");
  expect_refused(one_tensor({1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}), "model_invalid", "multiply");
  expect_refused(one_tensor({most / 4}), "model_invalid", "2^63 bytes");
  expect_refused(one_tensor({most / 4 + 2}), "model_invalid", "2^63 bytes");
  expect_refused(one_tensor({huge - 1}), "model_invalid", "2^63 bytes");
  expect_refused(one_tensor({(1ULL << 42) + 1}), "model_truncated", "truncated");
}

TEST(parse, tensors_beyond_the_file) {
  expect_loads(one_tensor({16}));
  expect_refused(one_tensor({17}), "model_truncated", "truncated: tensor 't' needs 68 bytes");
  expect_loads(one_tensor({8}, 0, 32));
  expect_refused(one_tensor({9}, 0, 32), "model_truncated", "truncated");
  expect_refused(one_tensor({1}, 0, 64), "model_truncated", "truncated");
  expect_refused(one_tensor({1}, 0, std::numeric_limits<std::uint64_t>::max() - 31), "model_truncated", "truncated");
  expect_refused(one_tensor({1}, 0, 4), "model_invalid", "offset 4 of tensor 't'");
}

TEST(parse, rows_hold_whole_blocks) {
  const auto q4_0 = static_cast<std::uint32_t>(ggml_type::q4_0);
  expect_loads(one_tensor({96}, q4_0));
  expect_refused(one_tensor({33}, q4_0), "model_invalid", "Q4_0");
  expect_refused(one_tensor({16, 2}, q4_0), "model_invalid", "not a multiple of Q4_0's 32");
}

TEST(parse, unknown_tensor_types_are_named) {
  for (const std::uint32_t type : {4U, 5U, 9U, 15U, 24U, 28U, 31U, 38U, 41U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    expect_refused(one_tensor({4}, type), "model_unsupported",
                   "tensor 't' is stored as type " + std::to_string(type) + ",");
  }
}

TEST(parse, names_are_kept_whole) {
  for (const std::size_t length : {std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{300}}) {
    const std::string name(length, 'n');
    const parsed_bytes parsed(gguf_test_writer().tensor(name, ggml_type::f32, {1}, "abcd").build());
    ASSERT_TRUE(*parsed) << parsed->error().message;
    EXPECT_EQ((*parsed)->tensors[0].name, name);
  }
  expect_refused(gguf_test_writer().tensor("", ggml_type::f32, {1}, "abcd").build(), "model_invalid",
                 "name of tensor 0");
}

TEST(parse, names_that_stand_twice) {
  expect_refused(gguf_test_writer().key("k", true).key("k", true).build(), "model_invalid", "key 'k' stands twice");
  expect_refused(
      gguf_test_writer().tensor("t", ggml_type::f32, {1}, "abcd").tensor("t", ggml_type::f32, {1}, "efgh").build(),
      "model_invalid", "tensor 't' stands twice");
}

TEST(parse, trailing_bytes_are_fine) {
  const std::string good = good_file();
  for (std::size_t extra = 1; extra <= 31; ++extra) expect_loads(good + std::string(extra, '\0'));
}

TEST(parse, every_cut_is_called_truncated) {
  const std::string good = good_file();
  expect_loads(good);
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_refused(std::string_view(good).substr(0, size), "model_truncated", "truncated");
  }
}

TEST(parse, messages_hold_printable_text_only) {
  const parsed_bytes parsed(gguf_test_writer().raw_tensor("\x1b[2J\xff\n", 99, {1}, "").build());
  ASSERT_FALSE(*parsed);
  EXPECT_THAT(parsed->error().message, HasSubstr(R"('\x1B[2J\xFF\x0A')"));
}

TEST(parse, places_data_at_the_alignment) {
  const parsed_bytes parsed(gguf_test_writer()
                                .alignment(64)
                                .tensor("a", ggml_type::f32, {1}, "aaaa")
                                .tensor("b", ggml_type::f16, {3}, "bbbbbb")
                                .build());
  ASSERT_TRUE(*parsed) << parsed->error().message;
  const auto& tensors = (*parsed)->tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(std::memcmp(tensors[0].data.data(), "aaaa", 4), 0);
  ASSERT_EQ(tensors[1].data.size(), 6u);
  EXPECT_EQ(std::memcmp(tensors[1].data.data(), "bbbbbb", 6), 0);
  EXPECT_EQ(tensors[1].data.data() - tensors[0].data.data(), 64);
}

}  // namespace
}  // namespace kvern
