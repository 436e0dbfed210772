#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.hpp"
#include "model/tokenizer/test_model.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern {
namespace {

constexpr token_id control = 256;

/// Bytes are tokens.
std::shared_ptr<const tokenizer> bytes() {
  const auto made = test::byte_bpe_model({}, {{"<|im_end|>"}}).make();
  EXPECT_TRUE(made);
  return *made;
}

std::vector<token_id> ids_of(const tokenizer& t, std::string_view text) { return t.encode(text, false, false); }

TEST(detokenizer, holds_a_character_until_it_is_whole) {
  const auto t = bytes();
  detokenizer d(t);
  const auto ids = ids_of(*t, "a\U0001F600b");
  ASSERT_EQ(ids.size(), 6U);
  std::vector<std::string> out;
  for (const token_id id : ids) out.push_back(d.push(id));
  EXPECT_EQ(out, (std::vector<std::string>{"a", "", "", "", "\U0001F600", "b"}));
  EXPECT_EQ(d.flush(), "");
}

TEST(detokenizer, ends_inside_a_character_with_one_replacement) {
  const auto t = bytes();
  detokenizer d(t);
  for (const token_id id : ids_of(*t, "\xF0\x9F\x98")) EXPECT_EQ(d.push(id), "");
  EXPECT_EQ(d.flush(), "\uFFFD");
  EXPECT_EQ(d.flush(), "");
  EXPECT_EQ(d.push(ids_of(*t, "x")[0]), "x") << "nothing is left over";
}

TEST(detokenizer, replaces_what_is_invalid) {
  const auto t = bytes();
  detokenizer d(t);
  std::string out;
  for (const token_id id : ids_of(*t, "a\xF0\x9F z\xFF\x80\xED\xA0\x80!")) out += d.push(id);
  EXPECT_EQ(out, "a\uFFFD z\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD!");
}

TEST(detokenizer, shows_control_tokens_when_asked) {
  const auto t = bytes();
  EXPECT_EQ(detokenizer(t).push(control), "");
  EXPECT_EQ(detokenizer(t, true).push(control), "<|im_end|>");
  EXPECT_EQ(detokenizer(t).push(-5), "");
}

TEST(detokenizer, puts_out_valid_text_whatever_comes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const auto t = bytes();
  for (int round = 0; round < 300; ++round) {
    detokenizer d(t, true);
    std::string out;
    std::string raw;
    for (auto i = random() % 100; i > 0; --i) {
      const auto id = static_cast<token_id>(random() % 258);
      const std::string now = d.push(id);
      ASSERT_EQ(utf8_valid_prefix(now), now.size());
      out += now;
      raw += t->piece(id, true);
    }
    out += d.flush();
    ASSERT_EQ(utf8_valid_prefix(out), out.size());
    if (utf8_valid_prefix(raw) == raw.size()) {
      ASSERT_EQ(out, raw);
    }
  }
}

TEST(detokenizer, streams_what_decode_gives) {
  const auto model = test::fetched_model("smollm2");
  if (!model) GTEST_SKIP() << "smollm2 is not here";
  const auto t = tokenizer::create(**gguf_file::open(*model));
  ASSERT_TRUE(t);
  const std::string text = "Grüße, 世界! \U0001F468\u200D\U0001F469 don't  stop\n\n.";
  detokenizer d(*t);
  std::string out;
  for (const token_id id : (*t)->encode(text, false, false)) out += d.push(id);
  EXPECT_EQ(out + d.flush(), text);
}

}  // namespace
}  // namespace kvern
