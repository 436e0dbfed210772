#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/chat_template.hpp"

/// Help for the tests of this folder.
namespace kvern::chat::test {

inline std::string whole(const std::vector<rendered_part>& parts) {
  std::string out;
  for (const auto& p : parts) out += p.text;
  return out;
}

/// The text that `source` renders to, or "!" and the code of its error.
inline std::string run(std::string_view source, const value& context = object{}, const render_limits& limits = {}) {
  const auto compiled = chat_template::compile(source);
  if (!compiled) return "!" + compiled.error().code;
  const auto parts = (*compiled)->render(context, limits, 1'700'000'000);
  return parts ? whole(*parts) : "!" + parts.error().code;
}

/// As `run`, with trusted text in angle quotes: «trusted»untrusted.
inline std::string marked(std::string_view source, const value& context = object{}) {
  const auto compiled = chat_template::compile(source);
  if (!compiled) return "!" + compiled.error().code;
  const auto parts = (*compiled)->render(context);
  if (!parts) return "!" + parts.error().code;
  std::string out;
  for (const auto& p : *parts) out += p.trusted ? "«" + p.text + "»" : p.text;
  return out;
}

/// The variables of the tests whose expected texts come from Python.
inline value sample() {
  const auto person = [](const char* name, int age) { return value(object{{"name", name}, {"age", age}}); };
  return object{{"user", "Ann"},
                {"items", array{3, 1, 2}},
                {"people", array{person("bob", 4), person("Al", 2), person("bob", 1)}},
                {"big", object{{"b", 1}, {"A", array{1, 2.5, nullptr, true}}, {"c", object{{"d", "é\n"}}}}},
                {"text", "one two\nthree"}};
}

}  // namespace kvern::chat::test
