#include "model/tokenizer/merge_table.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kvern {
namespace {

using texts = std::vector<std::string_view>;

TEST(merge_table, finds_pairs_in_rank_order) {
  const auto words = vocabulary::create({"a", "b", "ab", "c"}, {}, {});
  const texts merges{"a b", "ab c", "a b"};
  const merge_table table(*words, merges, texts{"c", "z"});
  EXPECT_EQ(table.find(0, 1).rank, 0U);
  EXPECT_EQ(table.find(0, 1).joined, 2U);
  EXPECT_EQ(table.find(1, 0).rank, merge_table::no_rank);
  EXPECT_EQ(table.letter(0), 3U);
  EXPECT_GE(table.letter(1), 4U) << "no token";
  // "abc" is no token, so it gets a symbol beyond the vocabulary.
  EXPECT_EQ(table.find(2, 3).rank, 1U);
  EXPECT_GE(table.find(2, 3).joined, 4U);
  EXPECT_NE(table.find(2, 3).joined, table.letter(1));
}

TEST(merge_table, goes_on_through_strings_that_are_no_tokens) {
  const auto words = vocabulary::create({"a", "b", "c", "abc"}, {}, {});
  const texts merges{"a b", "ab c"};
  const merge_table table(*words, merges, {});
  const symbol_id between = table.find(0, 1).joined;
  EXPECT_GE(between, 4U);
  EXPECT_EQ(table.find(between, 2).joined, 3U);
}

TEST(merge_table, never_makes_control_tokens) {
  const auto words = vocabulary::create({"a", "b", "ab"}, {1, 1, 3}, {});
  const merge_table table(*words, texts{"a b"}, {});
  EXPECT_GE(table.find(0, 1).joined, 3U);
}

TEST(merge_table, passes_over_lines_that_are_no_pairs) {
  const auto words = vocabulary::create({"a", "b", "ab", " ", " a"}, {}, {});
  const texts merges{"", "a", "a ", " ", "  a", "a b"};
  const merge_table table(*words, merges, {});
  EXPECT_EQ(table.find(0, 1).rank, 5U);
  EXPECT_EQ(table.find(3, 0).rank, 4U) << "a symbol may begin with a space";
}

TEST(merge_table, holds_many) {
  std::vector<std::string> owned;
  for (int i = 0; i < 300; ++i) owned.push_back(fmt::format("t{}", i));
  const auto words = vocabulary::create(texts(owned.begin(), owned.end()), {}, {});
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j < 30; ++j) lines.push_back(fmt::format("t{} t{}", i, j));
  }
  const merge_table table(*words, texts(lines.begin(), lines.end()), {});
  for (symbol_id i = 0; i < 300; ++i) {
    for (symbol_id j = 0; j < 30; ++j) ASSERT_EQ(table.find(i, j).rank, i * 30 + j);
  }
  EXPECT_EQ(table.find(0, 30).rank, merge_table::no_rank);
}

}  // namespace
}  // namespace kvern
