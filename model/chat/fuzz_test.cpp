#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <set>

#include "model/chat/test_json.hpp"
#include "model/chat/test_support.hpp"
#include "tests/support/golden.hpp"

namespace kvern::chat {
namespace {

/// Random edits of the reference templates must end in text or an error, never in a crash or a hang.
TEST(fuzz, mutated_templates_are_answered) {
  const auto file = kvern::test::golden("chat/cases.jsonl");
  if (!file) GTEST_SKIP() << "no reference data";
  std::vector<std::pair<std::string, value>> seeds;
  std::set<std::string> seen;
  for (const std::string& line : kvern::test::read_lines(*file)) {
    if (line.empty()) continue;
    const auto parsed = boost::json::parse(line);
    const std::string source(parsed.at("template").as_string());
    if (source.size() < 6000 && seen.insert(source).second) {
      seeds.emplace_back(source, test::from_boost(parsed.at("context")));
    }
  }
  ASSERT_FALSE(seeds.empty());
  const std::uint64_t seed = std::random_device()();
  // Printed before anything can go wrong: a sanitizer ends the program at once.
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string_view words[] = {"{{",    "}}",  "{%",   "%}",      "-%}", "|",         "(",      ")",      "[",
                                    "]",     "'",   "loop", "|tojson", ".",   "999999999", "* 9999", "range(", "if",
                                    "endif", "for", "in",   "~",       "**",  "\xFF",      "'é'"};
  render_limits limits;
  limits.steps = 20'000;
  limits.output_bytes = 1u << 20;
  limits.memory_bytes = 8u << 20;
  int rendered = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto [source, context] = seeds[below(seeds.size())];
    for (std::size_t edits = 1 + below(4); edits > 0 && !source.empty(); --edits) {
      const std::size_t at = below(source.size());
      switch (below(5)) {
        case 0:
          source[at] = static_cast<char>(random());
          break;
        case 1:
          source.erase(at, 1 + below(8));
          break;
        case 2:
          source.insert(at, words[below(std::size(words))]);
          break;
        case 3: {
          const std::string piece = source.substr(at, 1 + below(40));
          source.insert(below(source.size()), piece);
          break;
        }
        default: {
          const std::string& other = seeds[below(seeds.size())].first;
          if (!other.empty()) source.insert(at, other.substr(below(other.size()), 1 + below(30)));
        }
      }
    }
    const auto compiled = chat_template::compile(source);
    if (!compiled) {
      EXPECT_TRUE(compiled.error().code.starts_with("template_")) << compiled.error().code;
      continue;
    }
    const auto parts = (*compiled)->render(context, limits, 1'700'000'000);
    rendered += parts ? 1 : 0;
    if (!parts) {
      EXPECT_TRUE(parts.error().code.starts_with("template_")) << parts.error().code;
    }
  }
  EXPECT_GT(rendered, 100);
}

}  // namespace
}  // namespace kvern::chat
