#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <map>
#include <set>

#include "model/chat/test_json.hpp"
#include "model/chat/test_support.hpp"
#include "tests/support/golden.hpp"

namespace kvern::chat {
namespace {

struct golden_case {
  std::string name, group, source, expected, error, message;
  bool may_render = false;
  value context;
  std::int64_t now = 0;
};

std::int64_t local_seconds(const std::string& iso) {
  std::tm t{};
  t.tm_isdst = -1;
  if (std::sscanf(iso.c_str(), "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min,
                  &t.tm_sec) != 6) {
    return 0;
  }
  t.tm_year -= 1900;
  t.tm_mon -= 1;
  return std::mktime(&t);
}

std::vector<golden_case> load(const std::filesystem::path& file) {
  std::vector<golden_case> out;
  for (const std::string& line : kvern::test::read_lines(file)) {
    if (line.empty()) continue;
    const auto parsed = boost::json::parse(line);
    const auto& o = parsed.as_object();
    const auto text = [&](const char* key) {
      const auto* v = o.if_contains(key);
      return v != nullptr && v->is_string() ? std::string(v->get_string()) : std::string();
    };
    golden_case c;
    c.name = text("name");
    c.group = text("group");
    c.source = text("template");
    c.expected = text("expected");
    c.error = text("error");
    c.message = text("message");
    c.may_render = o.contains("may_render") && o.at("may_render").as_bool();
    c.context = test::from_boost(o.at("context"));
    if (!text("now").empty()) c.now = local_seconds(text("now"));
    out.push_back(std::move(c));
  }
  return out;
}

struct outcome {
  std::string text, error, message;
};

outcome rendered(const golden_case& c) {
  const auto compiled = chat_template::compile(c.source);
  if (!compiled) return {"", compiled.error().code, compiled.error().message};
  const auto parts = (*compiled)->render(c.context, {}, c.now);
  if (!parts) return {"", parts.error().code, parts.error().message};
  for (std::size_t i = 1; i < parts->size(); ++i) EXPECT_NE((*parts)[i].trusted, (*parts)[i - 1].trusted) << c.name;
  return {test::whole(*parts), "", ""};
}

/// Cases where another class of error is the better answer, with the reason.
const std::map<std::string, std::pair<std::string, std::string>> other_class = {
    {"depth/attr-chain", {"undefined", "the chain is walked without recursion, so its true error shows"}},
    {"depth/index-chain", {"undefined", "the chain is walked without recursion, so its true error shows"}},
};

void check(const golden_case& c) {
  SCOPED_TRACE(c.name);
  const outcome got = rendered(c);
  if (c.error.empty()) {
    EXPECT_EQ(got.error, "") << got.message;
    EXPECT_EQ(got.text, c.expected);
    return;
  }
  if (c.may_render && got.error.empty()) return;
  const auto other = other_class.find(c.name);
  EXPECT_EQ(got.error, "template_" + (other == other_class.end() ? c.error : other->second.first))
      << got.message << " | " << got.text.substr(0, 200);
  if (c.error == "raised") {
    EXPECT_EQ(got.message, c.message);
  }
}

class golden : public ::testing::TestWithParam<const char*> {};

TEST_P(golden, equals_reference_jinja) {
  const auto file = kvern::test::golden("chat/cases.jsonl");
  if (!file) GTEST_SKIP() << "no reference data";
  int n = 0;
  for (const golden_case& c : load(*file)) {
    if (c.group != GetParam()) continue;
    ++n;
    check(c);
  }
  EXPECT_GT(n, 50);
}

INSTANTIATE_TEST_SUITE_P(groups, golden, ::testing::Values("template", "unit", "hostile"));

TEST(golden_limits, exhausting_templates_end_soon) {
  const auto file = kvern::test::golden("chat/cases.jsonl");
  if (!file) GTEST_SKIP() << "no reference data";
  for (const golden_case& c : load(*file)) {
    if (!c.name.starts_with("exhaust/")) continue;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(rendered(c).error, "template_limit") << c.name;
    // Generous for sanitizers; a release build needs under a second.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << c.name;
  }
}

}  // namespace
}  // namespace kvern::chat
