// Random damage to a good file: every outcome is allowed but a read out of bounds, a hang or a crash. KVERN_SEED=N
// repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/gguf/gguf_test_writer.hpp"
#include "model/gguf/parse.hpp"

namespace kvern {
namespace {

constexpr int rounds = 20000;

const std::array<std::string, 4> keys{"general.architecture", "tokenizer.ggml.tokens", "llama.block_count", "floats"};

std::string good_file() {
  const std::array<std::string, 3> tokens{"<s>", "", "a longer token"};
  return test::gguf_test_writer()
      .alignment(32)
      .key(keys[0], "llama")
      .strings(keys[1], tokens)
      .key<std::uint32_t>(keys[2], 2)
      .array<double>(keys[3], {0.5, 1.5})
      .array<bool>("bools", {true, false})
      .tensor("token_embd.weight", ggml_type::f32, {4, 3}, std::string(48, 'e'))
      .tensor("blk.0.attn_q.weight", ggml_type::q4_0, {32, 2}, std::string(36, 'q'))
      .tensor("blk.1.attn_q.weight", ggml_type::q8_0, {32}, std::string(34, 'k'))
      .build();
}

/// Reads everything that a parsed file offers; the sum keeps the reads from being optimised away.
std::uint64_t read_all(const parsed_file& file) {
  std::uint64_t sum = 0;
  for (const auto& key : keys) {
    if (const auto found = file.keys.find_uint(key)) sum += found->value_or(0);
    if (const auto found = file.keys.find_bool(key)) sum += found->value_or(false) ? 1 : 0;
    if (const auto found = file.keys.find_float(key)) sum += found->has_value() ? 1 : 0;
    if (const auto found = file.keys.find_string(key); found && *found) {
      for (const char c : **found) sum += static_cast<unsigned char>(c);
    }
    if (const auto found = file.keys.find_strings(key); found && *found) {
      for (const auto text : **found) {
        for (const char c : text) sum += static_cast<unsigned char>(c);
      }
    }
    if (const auto found = file.keys.find_ints(key); found && *found) sum += (*found)->size();
    if (const auto found = file.keys.find_floats(key); found && *found) sum += (*found)->size();
  }
  for (const auto& tensor : file.tensors) {
    EXPECT_EQ(tensor.data.size(), tensor.elements() / traits(tensor.type).block_size * traits(tensor.type).type_size);
    for (const std::byte b : tensor.data) sum += static_cast<std::uint64_t>(b);
  }
  return sum;
}

class mutator {
 public:
  explicit mutator(std::uint64_t seed) : random_(seed) {}

  std::string damage(std::string bytes) {
    for (std::uint64_t n = 1 + below(4); n > 0; --n) {
      if (bytes.size() < 8) break;
      switch (below(6)) {
        case 0:
          bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          bytes[below(bytes.size())] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.resize(below(bytes.size() + 1));
          break;
        case 3:
          bytes.erase(below(bytes.size()), 1 + below(16));
          break;
        case 4:
          bytes.insert(below(bytes.size()), bytes.substr(below(bytes.size()), 1 + below(16)));
          break;
        default:
          put_number(bytes);
          break;
      }
    }
    return bytes;
  }

 private:
  std::uint64_t below(std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random_);
  }

  /// A number that tends to break arithmetic, over four or eight bytes.
  void put_number(std::string& bytes) {
    constexpr std::array<std::uint64_t, 10> numbers{0,          1,          0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                                    1ULL << 61, 1ULL << 62, 1ULL << 63, UINT64_MAX, UINT64_MAX - 31};
    const std::uint64_t number = numbers[below(numbers.size())];
    const std::size_t width = below(2) == 0 ? 4 : 8;
    std::memcpy(bytes.data() + below(bytes.size() - width + 1), &number, width);
  }

  std::mt19937_64 random_;
};

TEST(mutation, damaged_files_load_or_are_refused) {
  const char* given = std::getenv("KVERN_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  mutator mutate(seed);
  const std::string good = good_file();
  int loaded = 0;
  std::uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string bytes = mutate.damage(good);
    // Exactly as many bytes on the heap, so that AddressSanitizer sees a read past the end.
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    std::ranges::copy(std::as_bytes(std::span(bytes)), copy.get());
    const auto parsed = parse_gguf({copy.get(), bytes.size()}, "'m.gguf'");
    if (parsed) {
      sum += read_all(*parsed);
      ++loaded;
    } else {
      ASSERT_FALSE(parsed.error().message.empty());
      ASSERT_TRUE(parsed.error().code.starts_with("model_")) << parsed.error().code;
    }
  }
  // Damage to tensor data alone still loads, so both outcomes are met.
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, rounds);
  EXPECT_GT(sum, 0u);
}

}  // namespace
}  // namespace kvern
