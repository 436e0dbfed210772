#include <fmt/format.h>

#include <array>
#include <ctime>
#include <utility>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"

namespace kvern::chat {
namespace {

constexpr std::size_t max_range = 100'000;

val range(runtime& rt, const val&, arguments& args) {
  const bound b("range", args, {"start", "stop", "step"}, 1);
  auto* r = rt.make<range_node>();
  r->start = b.has(1) ? b.integer(0, 0) : 0;
  r->stop = b.has(1) ? b.integer(1, 0) : b.integer(0, 0);
  r->step = b.integer(2, 1);
  if (r->step == 0) fail_type("range() arg 3 must not be zero");
  const wide distance = r->step > 0 ? r->stop - r->start : r->start - r->stop;
  const wide stride = r->step > 0 ? r->step : -r->step;
  const wide count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > static_cast<wide>(max_range)) fail_limit(fmt::format("range() gives more than {} numbers", max_range));
  r->count = static_cast<std::size_t>(count);
  return val::of(r);
}

/// Pairs of a mapping, or of an iterable of pairs.
void add_pairs(runtime& rt, dict_node& d, const val& v) {
  if (v.is(kind::dict)) {
    for (const auto& [key, value] : v.dict().items) rt.insert(d, key, value);
    return;
  }
  if (v.is_undefined()) return;
  cursor c(rt, v);
  for (val pair; c.next(pair);) {
    const std::vector<val> two = elements(rt, pair);
    if (two.size() != 2) fail_type("dict needs pairs");
    rt.insert(d, two[0], two[1]);
  }
}

val dict(runtime& rt, const val&, arguments& args) {
  if (args.positional.size() > 1) fail_type("dict expects at most 1 positional argument");
  auto* d = rt.make<dict_node>();
  if (!args.positional.empty()) add_pairs(rt, *d, args.positional[0]);
  for (const auto& [name, value] : args.named) rt.insert(*d, rt.string(name, true), value);
  return val::of(d);
}

val make_namespace(runtime& rt, const val&, arguments& args) {
  if (args.positional.size() > 1) fail_type("namespace expects at most 1 positional argument");
  auto* ns = rt.make<namespace_node>();
  if (!args.positional.empty()) {
    auto* d = rt.make<dict_node>();
    add_pairs(rt, *d, args.positional[0]);
    for (const auto& [key, value] : d->items) {
      if (key.is_string()) ns->set(rt, key.view(), value);
    }
  }
  for (const auto& [name, value] : args.named) ns->set(rt, name, value);
  return val::of(ns);
}

struct cycler_node : object_node {
  std::vector<val> items;
  std::size_t at = 0;
  std::string_view type_name() const override { return "Cycler"; }
  bool attribute(runtime& rt, std::string_view name, val& out) override {
    if (name == "current")
      out = items[at];
    else if (name == "next")
      out = rt.function("next", next, val::of(this));
    else if (name == "reset")
      out = rt.function("reset", reset, val::of(this));
    else
      return false;
    return true;
  }

 private:
  static val next(runtime&, const val& self, arguments& args) {
    const bound none("next", args, {});
    auto& c = static_cast<cycler_node&>(self.object());
    const val v = c.items[c.at];
    c.at = (c.at + 1) % c.items.size();
    return v;
  }
  static val reset(runtime&, const val& self, arguments& args) {
    const bound none("reset", args, {});
    static_cast<cycler_node&>(self.object()).at = 0;
    return val::none();
  }
};

val cycler(runtime& rt, const val&, arguments& args) {
  if (args.positional.empty() || !args.named.empty()) fail_type("cycler needs at least one item");
  auto* c = rt.make<cycler_node>();
  c->items = args.positional;
  return val::of(c);
}

struct joiner_node : object_node {
  val separator;
  bool used = false;
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  val call(runtime&, arguments& args) override {
    const bound none("joiner", args, {});
    return std::exchange(used, true) ? separator : val::of(text());
  }
};

val joiner(runtime& rt, const val&, arguments& args) {
  const bound b("joiner", args, {"sep"});
  auto* j = rt.make<joiner_node>();
  j->separator = b.has(0) ? b[0] : rt.string_view(", ", true);
  return val::of(j);
}

/// Placeholder text: the same words in the same order every time, so that prompts are reproducible.
val lipsum(runtime& rt, const val&, arguments& args) {
  const bound b("lipsum", args, {"n", "html", "min", "max"});
  static constexpr std::string_view words[] = {"lorem",      "ipsum", "dolor", "sit", "amet", "consectetur",
                                               "adipiscing", "elit",  "sed",   "non", "risus"};
  const std::int64_t paragraphs = b.integer(0, 5);
  const std::int64_t length = std::max<std::int64_t>(b.integer(2, 20), 1);
  const bool html = b.truth(1, true);
  text_builder out(rt);
  std::size_t word = 0;
  for (std::int64_t p = 0; p < paragraphs; ++p) {
    if (p > 0) out.add("\n\n", false);
    if (html) out.add("<p>", false);
    for (std::int64_t i = 0; i < length; ++i) {
      rt.step();
      if (i > 0) out.add(" ", false);
      out.add(words[word++ % std::size(words)], false);
    }
    out.add(html ? ".</p>" : ".", false);
  }
  return out.finish(html);
}

val raise_exception(runtime& rt, const val&, arguments& args) {
  const bound b("raise_exception", args, {"message"}, 1);
  throw template_failure{"template_raised", std::string(str_of(rt, b[0]).view())};
}

val strftime_now(runtime& rt, const val&, arguments& args) {
  const bound b("strftime_now", args, {"format"}, 1);
  const text pattern = b.string(0);
  if (pattern.size() > 1024) fail_limit("strftime_now's format is too long");
  const auto now = static_cast<std::time_t>(rt.now());
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) fail_type("the clock is out of range");
  if (pattern.view().find('\0') != std::string_view::npos) fail_type("strftime_now's format holds a null character");
  // The mark at the end tells an empty result from one that did not fit.
  const std::string format = std::string(pattern.view()) + "|";
  // A conversion's width may be written out, so the result is bounded too.
  std::string made(16384, '\0');
  const std::size_t n = std::strftime(made.data(), made.size(), format.c_str(), &local);
  if (n == 0) fail_limit("strftime_now's result is too long");
  made.resize(n - 1);
  return rt.string(std::move(made), pattern.all_trusted());
}

constexpr std::array<std::pair<std::string_view, function_node::pointer>, 8> functions = {{
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"cycler", cycler},
    {"joiner", joiner},
    {"lipsum", lipsum},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
}};

}  // namespace

std::optional<val> find_global(runtime& rt, std::string_view name) {
  for (const auto& [known, run] : functions) {
    if (known == name) return rt.function(known, run);
  }
  return std::nullopt;
}

}  // namespace kvern::chat
