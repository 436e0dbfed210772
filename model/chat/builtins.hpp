#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// A filter: `value|name(args)`.
struct filter_entry {
  std::string_view name;
  val (*run)(runtime&, const val& value, arguments&);
};

/// A test: `value is name(args)`.
struct test_entry {
  std::string_view name;
  bool (*run)(runtime&, const val& value, arguments&);
};

/// Null: no filter, test of that name. All of Jinja's but for those whose output is for web pages or by chance
/// (pprint, random, urlize, xmlattr); with tojson and fromjson.
const filter_entry* find_filter(std::string_view name);
const test_entry* find_test(std::string_view name);

/// A variable that every template has: range, dict, namespace, cycler, joiner, lipsum, raise_exception, strftime_now.
std::optional<val> find_global(runtime& rt, std::string_view name);

/// The filters by family.
std::span<const filter_entry> text_filters();
std::span<const filter_entry> layout_filters();
std::span<const filter_entry> number_filters();
std::span<const filter_entry> sequence_filters();
std::span<const filter_entry> selection_filters();

}  // namespace kvern::chat
