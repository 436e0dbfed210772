#include "gpu/cache/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kvern::gpu {
namespace {

constexpr std::uint64_t header_limit = 1 << 16;

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A file with this header and data.
std::string file_of(std::string_view header, std::string_view data = {}) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  out += header;
  out += data;
  return out;
}

std::string two_tensors() {
  const std::vector<tensor_spec> specs{{"a", tensor_type::i32, {3}}, {"b.k", tensor_type::f16, {2, 1, 3}}};
  safetensors_writer writer({{"format", "1"}, {"quoted \"key\"", "line\nbreak"}}, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::uint8_t value = static_cast<std::uint8_t>(17 * (i + 1));
    for (auto& byte : writer.data(i)) byte = static_cast<std::byte>(value++);
  }
  return writer.take();
}

bool valid(const std::string& file) { return read_safetensors(bytes_of_text(file), header_limit).has_value(); }

TEST(safetensors, read_what_was_written) {
  const auto file = two_tensors();
  const auto read = read_safetensors(bytes_of_text(file), header_limit);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata, (file_metadata{{"format", "1"}, {"quoted \"key\"", "line\nbreak"}}));
  ASSERT_EQ(read->tensors.size(), 2u);
  const auto* a = read->find("a");
  const auto* b = read->find("b.k");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(read->find("c"), nullptr);
  EXPECT_EQ(a->spec, (tensor_spec{"a", tensor_type::i32, {3}}));
  EXPECT_EQ(b->spec, (tensor_spec{"b.k", tensor_type::f16, {2, 1, 3}}));
  ASSERT_EQ(a->data.size(), 12u);
  ASSERT_EQ(b->data.size(), 12u);
  EXPECT_EQ(a->data[0], std::byte{17});
  EXPECT_EQ(b->data[11], std::byte{34 + 11});
  // The data begins at a multiple of eight.
  EXPECT_EQ((a->data.data() - bytes_of_text(file).data()) % 8, 0);
}

TEST(safetensors, reads_a_file_in_the_published_shape) {
  const std::string header =
      R"({"x":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},"y":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})";
  const auto file = file_of(header, "abcdefgh");
  const auto read = read_safetensors(bytes_of_text(file), header_limit);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::memcmp(read->find("x")->data.data(), "efgh", 4), 0);
  EXPECT_EQ(read->find("y")->spec.type, tensor_type::i8);
}

TEST(safetensors, refuses_what_is_not_one) {
  const auto tensor = [](std::string_view more) { return file_of("{\"x\":{" + std::string(more) + "}}", "abcdefgh"); };
  ASSERT_TRUE(valid(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])")));
  const std::string cases[] = {
      "",
      "1234567",
      file_of("[]"),
      file_of("{"),
      file_of("{}", "x"),
      file_of(R"({"__metadata__":{"a":1}})"),
      file_of(R"({"__metadata__":[]})"),
      file_of(R"({"x":3})"),
      tensor(R"("dtype":"F64","shape":[1],"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,16])"),
      tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"),
      tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"),
      tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
      tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
      tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
      tensor(R"("dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8])"),
      tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"),
      tensor(R"("shape":[2],"data_offsets":[0,8])"),
      file_of(
          R"({"x":{"dtype":"I8","shape":[8],"data_offsets":[0,8]},"y":{"dtype":"I8","shape":[4],"data_offsets":[4,8]}})",
          "abcdefgh"),
      file_of(std::string(header_limit + 1, ' ')),
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
  };
  for (const auto& file : cases) {
    const auto read = read_safetensors(bytes_of_text(file), header_limit);
    ASSERT_FALSE(read) << file;
    EXPECT_EQ(read.error().code, "invalid_session_file");
  }
}

TEST(safetensors, cut_anywhere_it_is_refused) {
  const auto file = two_tensors();
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_FALSE(valid(file.substr(0, size))) << size;
  EXPECT_FALSE(valid(file + '\0'));
}

TEST(safetensors, mutations_are_read_within_their_bounds) {
  constexpr std::uint64_t seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto whole = two_tensors();
  for (int round = 0; round < 20'000; ++round) {
    auto file = whole;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const auto at = random() % file.size();
      switch (random() % 4) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8)));
          break;
        case 2:
          file.erase(at, 1 + random() % 8);
          break;
        default:
          file.insert(at, 1, "0123456789[]{},:\""[random() % 17]);
      }
      if (file.empty()) file = " ";
    }
    const auto read = read_safetensors(bytes_of_text(file), header_limit);
    if (!read) continue;
    std::size_t total = 0;
    for (const auto& [name, tensor] : read->tensors) {
      total += tensor.data.size();
      unsigned sum = 0;
      for (const auto byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      EXPECT_LE(sum, 255u * tensor.data.size());
    }
    EXPECT_LE(total, file.size());
  }
}

}  // namespace
}  // namespace kvern::gpu
