#include "model/chat/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/chat/arguments.hpp"
#include "model/chat/markup.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

constexpr std::size_t max_width = 1u << 24;

class percent {
 public:
  percent(runtime& rt, const val& format, const val& values)
      : rt_(rt), out_(rt), format_(format.string()), markup_(format.markup()), values_(values) {}

  val run() {
    const std::string_view s = format_.view();
    std::size_t plain = 0;
    for (at_ = 0; at_ < s.size();) {
      if (s[at_] != '%') {
        ++at_;
        continue;
      }
      out_.add(format_.sub(plain, at_ - plain));
      const std::size_t from = at_++;
      conversion(s, from);
      plain = at_;
    }
    out_.add(format_.from(plain));
    const bool left = values_.is(kind::tuple) ? used_ < values_.list().items.size() : used_ == 0;
    if (!keyed_ && left && !values_.is(kind::dict) && !values_.is(kind::list)) {
      fail_type("not all arguments converted during string formatting");
    }
    return out_.finish(markup_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_.view()[at_] : '\0'; }

  val next() {
    if (keyed_) return current_;
    if (values_.is(kind::tuple)) {
      const auto& items = values_.list().items;
      if (used_ >= items.size()) fail_type("not enough arguments for format string");
      return items[used_++];
    }
    if (used_++ > 0) fail_type("not enough arguments for format string");
    return values_;
  }

  std::size_t number() {
    std::size_t n = 0;
    if (peek() == '*') {
      ++at_;
      const std::int64_t given = index_of(next());
      if (given < 0 || given > static_cast<std::int64_t>(max_width)) fail_limit("a format's width is out of bounds");
      return static_cast<std::size_t>(given);
    }
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      n = n * 10 + static_cast<std::size_t>(peek() - '0');
      if (n > max_width) fail_limit("a format's width or precision is too large");
    }
    return n;
  }

  void conversion(std::string_view s, std::size_t from) {
    current_ = val::none();
    if (peek() == '(') {
      const std::size_t close = s.find(')', at_);
      if (close == std::string_view::npos) fail_type("incomplete format key");
      if (!values_.is(kind::dict)) fail_type("format requires a mapping");
      const val* found = values_.dict().find(s.substr(at_ + 1, close - at_ - 1));
      if (found == nullptr) fail_type("a format key is missing in the mapping");
      current_ = *found;
      keyed_ = true;
      at_ = close + 1;
    }
    format_spec spec;
    bool left = false;
    bool zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-')
        left = true;
      else if (c == '0')
        zero = true;
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else
        break;
    }
    spec.width = number();
    if (peek() == '.') {
      ++at_;
      const std::size_t precision = number();
      if (precision > 4096) fail_limit("a format's precision is too large");
      spec.precision = static_cast<int>(precision);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    const char type = peek();
    if (at_ >= format_.size()) fail_type("incomplete format");
    ++at_;
    if (type == '%') {
      out_.add("%", format_.trusted_at(from));
      return;
    }
    spec.align = left ? '<' : '>';
    if (zero && !left) {
      spec.align = '=';
      spec.fill = "0";
    }
    convert(type, spec, next());
  }

  void convert(char type, format_spec spec, const val& v) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        spec.fill = " ";
        if (spec.align == '=') spec.align = '>';
        val shown = type == 's' ? str_of(rt_, v) : repr_of(rt_, v);
        if (type == 's' && v.is_undefined() && v.why().security) fail_use(v);
        if (markup_) shown = escaped(rt_, shown);
        add_formatted(rt_, out_, shown, spec);
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(type, spec, v);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (v.is_undefined()) fail_use(v);
        if (!v.is_number()) fail_type(fmt::format("must be real number, not {}", type_name(v)));
        spec.type = type;
        add_formatted(rt_, out_, val::of(v.as_real()), spec);
        return;
      case 'c':
        if (v.is_string()) {
          if (v.string().length() != 1) fail_type("%c requires int or char");
        } else {
          spec.type = 'c';
        }
        if (spec.align == '=') spec.align = '>';
        spec.precision = -1;
        add_formatted(rt_, out_, v, spec);
        return;
      default:
        fail_type("unsupported format character");
    }
  }

  void integer(char type, format_spec& spec, const val& v) {
    if (v.is_undefined()) fail_use(v);
    if (!v.is_number()) fail_type(fmt::format("%{} format: a real number is required, not {}", type, type_name(v)));
    wide i = 0;
    if (v.is(kind::real)) {
      if (type == 'x' || type == 'X' || type == 'o') fail_type("an integer is required, not float");
      if (!std::isfinite(v.real()) || std::fabs(v.real()) > 1e37) fail_limit("a number is too large for its format");
      i = static_cast<wide>(v.real());
    } else {
      i = v.integer();
    }
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    // The precision is the least number of digits here, which format() does not know.
    const val digits = rt_.string(format_integer(i, spec));
    format_spec outer;
    outer.width = spec.width;
    outer.align = spec.align == '=' ? '>' : spec.align;
    add_formatted(rt_, out_, digits, outer);
  }

  runtime& rt_;
  text_builder out_;
  text format_;
  bool markup_;
  val values_;
  val current_;
  bool keyed_ = false;
  std::size_t used_ = 0;
  std::size_t at_ = 0;
};

class braces {
 public:
  braces(runtime& rt, const arguments& args) : rt_(rt), args_(args) {}

  void run(text_builder& out, const text& format, int depth) {
    if (depth > 2) fail_type("a format specification nests too deep");
    const std::string_view s = format.view();
    std::size_t plain = 0;
    for (std::size_t i = 0; i < s.size();) {
      const char c = s[i];
      if (c != '{' && c != '}') {
        ++i;
        continue;
      }
      out.add(format.sub(plain, i - plain));
      if (i + 1 < s.size() && s[i + 1] == c) {
        out.add(format.sub(i, 1));
        i += 2;
      } else if (c == '}') {
        fail_type("single '}' encountered in format string");
      } else {
        i = field(out, format, i + 1, depth);
      }
      plain = i;
    }
    out.add(format.from(plain));
  }

 private:
  /// The field whose inside starts at `from`; the offset after its brace.
  std::size_t field(text_builder& out, const text& format, std::size_t from, int depth) {
    const std::string_view s = format.view();
    std::size_t end = from;
    std::size_t spec_at = std::string_view::npos;
    for (int open = 1;; ++end) {
      if (end >= s.size()) fail_type("expected '}' before end of string");
      if (s[end] == '{') ++open;
      if (s[end] == '[' && spec_at == std::string_view::npos) {
        end = s.find(']', end);
        if (end == std::string_view::npos) fail_type("expected '}' before end of string");
      }
      if (s[end] == ':' && spec_at == std::string_view::npos) spec_at = end;
      if (s[end] == '}' && --open == 0) break;
    }
    std::size_t name_end = std::min(spec_at, end);
    char conversion = '\0';
    const std::string_view head = s.substr(from, name_end - from);
    if (head.size() >= 2 && head[head.size() - 2] == '!') {
      conversion = head.back();
      name_end -= 2;
    }
    val v = lookup(format.sub(from, name_end - from));
    if (conversion == 'r' || conversion == 'a')
      v = repr_of(rt_, v);
    else if (conversion == 's')
      v = str_of(rt_, v);
    else if (conversion != '\0')
      fail_type("unknown conversion specifier");
    std::string spec;
    if (spec_at < end) {
      text_builder made(rt_);
      run(made, format.sub(spec_at + 1, end - spec_at - 1), depth + 1);
      spec = std::string(made.finish().view());
    }
    add_formatted(rt_, out, v, parse_spec(spec));
    return end + 1;
  }

  val lookup(const text& name) {
    const std::string_view s = name.view();
    std::size_t at = std::min(s.find_first_of(".["), s.size());
    val v = argument(s.substr(0, at));
    while (at < s.size()) {
      if (s[at] == '.') {
        const std::size_t end = std::min(s.find_first_of(".[", at + 1), s.size());
        v = attribute(rt_, v, name.sub(at + 1, end - at - 1));
        at = end;
      } else {
        const std::size_t close = s.find(']', at);
        if (close == std::string_view::npos) fail_type("missing ']' in format string");
        const text key = name.sub(at + 1, close - at - 1);
        wide index = 0;
        v = item(rt_, v, plain_number(key.view(), index) ? val::of(index) : val::of(key));
        at = close + 1;
        if (at < s.size() && s[at] != '.' && s[at] != '[') fail_type("malformed field in format string");
      }
    }
    return v;
  }

  static bool plain_number(std::string_view s, wide& out) {
    if (s.empty() || s.size() > 18) return false;
    for (const char c : s) {
      if (c < '0' || c > '9') return false;
      out = out * 10 + (c - '0');
    }
    return true;
  }

  val argument(std::string_view name) {
    wide i = 0;
    if (name.empty()) {
      if (manual_) fail_type("cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      i = static_cast<wide>(next_++);
    } else if (plain_number(name, i)) {
      if (automatic_) fail_type("cannot switch from automatic field numbering to manual field specification");
      manual_ = true;
    } else {
      rt_.step(args_.named.size() / 16);
      for (const auto& [key, value] : args_.named) {
        if (key == name) return value;
      }
      fail_type("a named argument of format() is missing");
    }
    if (i >= static_cast<wide>(args_.positional.size())) fail_type("an argument of format() is missing");
    return args_.positional[static_cast<std::size_t>(i)];
  }

  runtime& rt_;
  const arguments& args_;
  std::size_t next_ = 0;
  bool automatic_ = false;
  bool manual_ = false;
};

}  // namespace

val format_percent(runtime& rt, const val& format, const val& values) {
  rt.scan(format.string().size());
  return percent(rt, format, values).run();
}

val format_braces(runtime& rt, const text& format, const arguments& args) {
  rt.scan(format.size());
  text_builder out(rt);
  braces(rt, args).run(out, format, 0);
  return out.finish();
}

}  // namespace kvern::chat
