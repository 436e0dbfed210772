#include "model/chat/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

class writer {
 public:
  writer(runtime& rt, const json_style& style) : rt_(rt), style_(style), out_(rt) {}

  void write(const val& v) {
    rt_.step();
    const runtime::nesting level(rt_);
    switch (v.type()) {
      case kind::none:
        out_.add("null", false);
        return;
      case kind::boolean:
        out_.add(v.boolean() ? "true" : "false", false);
        return;
      case kind::integer:
        out_.add(integer_repr(v.integer()), false);
        return;
      case kind::real:
        out_.add(real(v.real()), false);
        return;
      case kind::string:
        string(v.view());
        return;
      case kind::list:
      case kind::tuple:
        list(v.list().items);
        return;
      case kind::dict:
        dict(v.dict().items);
        return;
      default:
        fail_type(fmt::format("an object of type {} is not JSON serializable", type_name(v)));
    }
  }

  val finish() { return out_.finish(); }

 private:
  static std::string real(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return real_repr(d);
  }

  void line() {
    if (!style_.indent) return;
    out_.add("\n", false);
    for (int i = 0; i < level_; ++i) out_.add(*style_.indent, false);
  }

  void separate(bool first) {
    if (!first) out_.add(style_.item_separator, false);
    line();
  }

  void list(const std::vector<val>& items) {
    if (items.empty()) return out_.add("[]", false);
    out_.add("[", false);
    ++level_;
    bool first = true;
    for (const val& item : items) {
      separate(first);
      first = false;
      write(item);
    }
    --level_;
    line();
    out_.add("]", false);
  }

  void key(const val& k) {
    switch (k.type()) {
      case kind::string:
        return string(k.view());
      case kind::none:
        return out_.add("\"null\"", false);
      case kind::boolean:
        return out_.add(k.boolean() ? "\"true\"" : "\"false\"", false);
      case kind::integer:
        return out_.add("\"" + integer_repr(k.integer()) + "\"", false);
      case kind::real:
        return out_.add("\"" + real(k.real()) + "\"", false);
      default:
        fail_type(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(k)));
    }
  }

  void dict(const std::vector<std::pair<val, val>>& items) {
    if (items.empty()) return out_.add("{}", false);
    std::vector<std::pair<val, val>> sorted;
    if (style_.sort_keys) {
      rt_.memory(items.size() * sizeof(items[0]));
      sorted = items;
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](const auto& a, const auto& b) { return less(rt_, a.first, b.first); });
    }
    out_.add("{", false);
    ++level_;
    bool first = true;
    for (const auto& [k, v] : style_.sort_keys ? sorted : items) {
      separate(first);
      first = false;
      key(k);
      out_.add(style_.key_separator, false);
      write(v);
    }
    --level_;
    line();
    out_.add("}", false);
  }

  void escape(std::string& made, unicode::code_point c) const {
    static constexpr std::string_view from = "\"\\\n\r\t\b\f";
    static constexpr std::string_view to = "\"\\nrtbf";
    if (c.value < 0x80) {
      const std::size_t known = from.find(static_cast<char>(c.value));
      if (known != std::string_view::npos) {
        made.push_back('\\');
        made.push_back(to[known]);
        return;
      }
    }
    const auto value = static_cast<std::uint32_t>(c.value);
    if (value < 0x10000) {
      made += fmt::format("\\u{:04x}", value);
    } else {
      made +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10), 0xDC00 + ((value - 0x10000) & 0x3FF));
    }
  }

  void string(std::string_view s) {
    rt_.scan(s.size());
    out_.add("\"", false);
    std::size_t plain = 0;
    for (std::size_t i = 0; i < s.size();) {
      const auto byte = static_cast<unsigned char>(s[i]);
      const bool special = byte < 0x20 || byte == '"' || byte == '\\' || (byte >= 0x80 && style_.ensure_ascii);
      if (!special) {
        ++i;
        continue;
      }
      const auto c = unicode::decode(s, i);
      if (c.well_formed) {
        out_.add(s.substr(plain, i - plain), false);
        std::string made;
        escape(made, c);
        out_.add(made, false);
        plain = i + c.size;
      }
      i += c.size;
    }
    out_.add(s.substr(plain), false);
    out_.add("\"", false);
  }

  runtime& rt_;
  const json_style& style_;
  text_builder out_;
  int level_ = 0;
};

class reader {
 public:
  reader(runtime& rt, std::string_view s) : rt_(rt), s_(s) {}

  val document() {
    const val v = value();
    space();
    if (at_ != s_.size()) malformed();
    return v;
  }

 private:
  [[noreturn]] static void malformed() { fail_type("fromjson was given malformed JSON"); }

  void space() {
    while (at_ < s_.size() && std::string_view(" \t\n\r").find(s_[at_]) != std::string_view::npos) ++at_;
  }
  bool skip(std::string_view word) {
    if (!s_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(char c) {
    space();
    if (at_ >= s_.size() || s_[at_] != c) malformed();
    ++at_;
  }
  bool skip_after_space(char c) {
    space();
    return skip(std::string_view(&c, 1));
  }

  val value() {
    rt_.step();
    const runtime::nesting level(rt_);
    space();
    if (skip("null")) return val::none();
    if (skip("true")) return val::of(true);
    if (skip("false")) return val::of(false);
    if (skip("NaN")) return val::of(std::numeric_limits<double>::quiet_NaN());
    if (skip("Infinity")) return val::of(std::numeric_limits<double>::infinity());
    if (skip("-Infinity")) return val::of(-std::numeric_limits<double>::infinity());
    if (skip("\"")) return string();
    if (skip("[")) return list();
    if (skip("{")) return dict();
    return number();
  }

  val list() {
    std::vector<val> items;
    if (skip_after_space(']')) return rt_.list({});
    do {
      rt_.memory(sizeof(val));
      items.push_back(value());
    } while (skip_after_space(','));
    expect(']');
    return rt_.list(std::move(items));
  }

  val dict() {
    auto* d = rt_.make<dict_node>();
    if (skip_after_space('}')) return val::of(d);
    do {
      expect('"');
      const val key = string();
      expect(':');
      rt_.insert(*d, key, value());
    } while (skip_after_space(','));
    expect('}');
    return val::of(d);
  }

  std::uint32_t hex() {
    if (s_.size() - at_ < 4) malformed();
    std::uint32_t v = 0;
    const auto [end, problem] = std::from_chars(s_.data() + at_, s_.data() + at_ + 4, v, 16);
    if (end != s_.data() + at_ + 4) malformed();
    at_ += 4;
    return v;
  }

  val string() {
    std::string made;
    for (;;) {
      if (at_ >= s_.size()) malformed();
      const char c = s_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) malformed();
      if (c != '\\') {
        made.push_back(c);
        continue;
      }
      if (at_ >= s_.size()) malformed();
      const char e = s_[at_++];
      static constexpr std::string_view from = "\"\\/nrtbf";
      static constexpr std::string_view to = "\"\\/\n\r\t\b\f";
      if (const std::size_t known = from.find(e); known != std::string_view::npos) {
        made.push_back(to[known]);
        continue;
      }
      if (e != 'u') malformed();
      std::uint32_t cp = hex();
      if (cp >= 0xD800 && cp < 0xDC00 && skip("\\u")) {
        const std::uint32_t low = hex();
        if (low < 0xDC00 || low > 0xDFFF) malformed();
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
      }
      unicode::append(made, cp >= 0xD800 && cp < 0xE000 ? 0xFFFD : cp);
    }
    return rt_.string(std::move(made));
  }

  val number() {
    const std::size_t from = at_;
    const auto digits = [&] {
      const std::size_t start = at_;
      while (at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9') ++at_;
      if (at_ == start) malformed();
      return at_ - start;
    };
    skip("-");
    const bool zero = at_ < s_.size() && s_[at_] == '0';
    if (digits() > 1 && zero) malformed();
    bool real = false;
    if (skip(".")) {
      digits();
      real = true;
    }
    if (skip("e") || skip("E")) {
      if (!skip("+")) skip("-");
      digits();
      real = true;
    }
    const std::string word(s_.substr(from, at_ - from));
    if (real) return val::of(std::strtod(word.c_str(), nullptr));
    wide v = 0;
    for (const char c : word) {
      if (c == '-') continue;
      if (__builtin_mul_overflow(v, wide{10}, &v) || __builtin_add_overflow(v, wide{c - '0'}, &v)) {
        fail_limit("fromjson was given an integer beyond 127 bits");
      }
    }
    return val::of(word[0] == '-' ? -v : v);
  }

  runtime& rt_;
  std::string_view s_;
  std::size_t at_ = 0;
};

}  // namespace

val to_json(runtime& rt, const val& v, const json_style& style) {
  writer w(rt, style);
  w.write(v);
  return w.finish();
}

val from_json(runtime& rt, std::string_view json) {
  rt.scan(json.size());
  return reader(rt, json).document();
}

}  // namespace kvern::chat
