#include "model/chat/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "model/chat/string_literal.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

struct syntax_problem {
  int line;
  std::string reason;
};

std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

class scanner {
 public:
  explicit scanner(std::string source) : source_(std::move(source)) {}

  std::vector<lexeme> run() {
    while (at_ < source_.size()) outside();
    push(token_kind::end, {});
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail_here(std::string reason) const { throw syntax_problem{line_, std::move(reason)}; }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts(std::string_view s) const { return rest().starts_with(s); }

  void push(token_kind kind, std::string text) { out_.push_back({kind, line_, std::move(text)}); }

  /// Moves on, counting lines and noting whether the next character starts a line.
  void advance(std::size_t n) {
    const std::string_view passed = std::string_view(source_).substr(at_, n);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    at_ += n;
  }

  std::size_t space_at(std::size_t from) const {
    std::size_t n = from;
    while (n < source_.size()) {
      const auto c = unicode::decode(source_, n);
      if (!unicode::has(c.value, unicode::space)) break;
      n += c.size;
    }
    return n - from;
  }

  /// The text before a tag: `sign` is what follows the tag's opening, `lstrip` whether the tag is of the stripped kind.
  std::string_view stripped(std::string_view text, char sign, bool lstrip) const {
    if (sign == '-') {
      while (!text.empty()) {
        const std::size_t at = unicode::before(text, text.size());
        if (!unicode::has(unicode::decode(text, at).value, unicode::space)) break;
        text = text.substr(0, at);
      }
      return text;
    }
    if (sign == '+' || !lstrip) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return text;
    for (std::size_t i = line_begin; i < text.size();) {
      const auto c = unicode::decode(text, i);
      if (!unicode::has(c.value, unicode::space)) return text;
      i += c.size;
    }
    return text.substr(0, line_begin);
  }

  /// Length of a closing tag at `from`: with its sign, and with the white space it eats. 0: none here.
  std::size_t closing(std::size_t from, std::string_view mark, bool trims_newline, bool plus) const {
    const std::string_view s = std::string_view(source_).substr(from);
    if (s.starts_with('-') && s.substr(1).starts_with(mark)) {
      return 1 + mark.size() + space_at(from + 1 + mark.size());
    }
    if (plus && s.starts_with('+') && s.substr(1).starts_with(mark)) return 1 + mark.size();
    if (!s.starts_with(mark)) return 0;
    return mark.size() + (trims_newline && s.substr(mark.size()).starts_with('\n') ? 1 : 0);
  }

  void outside() {
    std::size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) {
        push(token_kind::data, std::string(rest()));
        advance(source_.size() - at_);
        return;
      }
      const char second = source_[open + 1];
      if (second == '%' || second == '{' || second == '#') break;
    }
    const char second = source_[open + 1];
    const char third = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const char sign = third == '-' || third == '+' ? third : '\0';
    const std::string_view before = std::string_view(source_).substr(at_, open - at_);
    const std::string_view text = stripped(before, sign, second != '{');
    if (!text.empty()) push(token_kind::data, std::string(text));
    advance(open - at_);

    if (second == '#') return comment(sign);
    const std::size_t opening = sign == '\0' ? 2 : 3;
    if (second == '%') {
      if (const auto n = raw_opening(opening)) return raw(*n);
    }
    advance(opening);
    push(second == '{' ? token_kind::variable_begin : token_kind::block_begin, {});
    inside(second == '{');
  }

  void comment(char sign) {
    for (std::size_t i = at_ + (sign == '\0' ? 2 : 3); i < source_.size(); ++i) {
      if (source_[i] != '#' && source_[i] != '-' && source_[i] != '+') continue;
      if (const std::size_t n = closing(i, "#}", true, true)) return advance(i + n - at_);
    }
    fail_here("the comment has no end");
  }

  /// Length of `{% raw %}` here, or none.
  std::optional<std::size_t> raw_opening(std::size_t opening) const {
    std::size_t i = at_ + opening;
    i += space_at(i);
    if (!std::string_view(source_).substr(i).starts_with("raw")) return std::nullopt;
    i += 3;
    i += space_at(i);
    const std::size_t n = closing(i, "%}", false, false);
    return n == 0 ? std::nullopt : std::optional(i + n - at_);
  }

  void raw(std::size_t opening) {
    advance(opening);
    for (std::size_t i = source_.find("{%", at_); i != std::string::npos; i = source_.find("{%", i + 1)) {
      std::size_t j = i + 2;
      const char sign = j < source_.size() && (source_[j] == '-' || source_[j] == '+') ? source_[j] : '\0';
      if (sign != '\0') ++j;
      j += space_at(j);
      if (!std::string_view(source_).substr(j).starts_with("endraw")) continue;
      j += 6;
      j += space_at(j);
      const std::size_t n = closing(j, "%}", true, true);
      if (n == 0) continue;
      const std::string_view text = stripped(std::string_view(source_).substr(at_, i - at_), sign, true);
      if (!text.empty()) push(token_kind::data, std::string(text));
      return advance(j + n - at_);
    }
    fail_here("the raw block has no end");
  }

  /// Tokens up to the end of the tag.
  void inside(bool variable) {
    std::vector<char> brackets;
    for (;;) {
      if (at_ >= source_.size()) return;
      if (brackets.empty()) {
        const std::size_t n = variable ? closing(at_, "}}", false, false) : closing(at_, "%}", true, true);
        if (n != 0) {
          push(variable ? token_kind::variable_end : token_kind::block_end, {});
          return advance(n);
        }
      }
      if (const std::size_t n = space_at(at_)) {
        advance(n);
        continue;
      }
      if (digit(peek())) {
        number();
      } else if (peek() == '\'' || peek() == '"') {
        string();
      } else if (!name()) {
        op(brackets);
      }
    }
  }

  /// Digits with single underscores between them from `i`; their length.
  template <class P>
  std::size_t digits(std::size_t i, P&& is) const {
    std::size_t n = 0;
    const auto get = [&](std::size_t k) { return i + k < source_.size() ? source_[i + k] : '\0'; };
    while (is(get(n)) || (n > 0 && get(n) == '_' && is(get(n + 1)))) ++n;
    return n;
  }

  void push_number(token_kind kind, std::size_t n) {
    std::string text(rest().substr(0, n));
    std::erase(text, '_');
    push(kind, std::move(text));
    advance(n);
  }

  void number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      const std::size_t whole = digits(at_, digit);
      std::size_t n = whole;
      bool real = false;
      if (peek(n) == '.') {
        if (const std::size_t fraction = digits(at_ + n + 1, digit)) {
          n += 1 + fraction;
          real = true;
        }
      }
      if (peek(n) == 'e' || peek(n) == 'E') {
        const std::size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 1 : 0;
        if (const std::size_t exponent = digits(at_ + n + 1 + sign, digit)) {
          n += 1 + sign + exponent;
          real = true;
        }
      }
      if (real) return push_number(token_kind::real, n);
    }
    if (peek() == '0') {
      const auto prefixed = [&](char low, auto&& is) -> std::size_t {
        if ((peek(1) | 0x20) != low) return 0;
        const std::size_t skip = peek(2) == '_' ? 3 : 2;
        const std::size_t n = digits(at_ + skip, is);
        return n == 0 ? 0 : skip + n;
      };
      std::size_t n = prefixed('b', [](char c) { return c == '0' || c == '1'; });
      if (n == 0) n = prefixed('o', [](char c) { return c >= '0' && c <= '7'; });
      if (n == 0) n = prefixed('x', [](char c) { return digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
      if (n == 0) n = digits(at_, [](char c) { return c == '0'; });
      return push_number(token_kind::integer, n);
    }
    push_number(token_kind::integer, digits(at_, digit));
  }

  void string() {
    const char quote = peek();
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] == '\\') ++i;
    }
    if (i >= source_.size()) fail_here("a string has no closing quote");
    auto value = unescape(std::string_view(source_).substr(at_ + 1, i - at_ - 1));
    if (!value) fail_here(std::move(value.error()));
    push(token_kind::string, std::move(*value));
    advance(i + 1 - at_);
  }

  bool name() {
    std::size_t i = at_;
    while (i < source_.size()) {
      const auto c = unicode::decode(source_, i);
      const std::uint32_t p = unicode::properties(c.value);
      const bool letter = c.value == '_' || (p & unicode::alpha) != 0;
      const bool later =
          (p & (unicode::decimal | unicode::ignorable)) != 0 && (c.value >= 0x80 || digit(peek(i - at_)));
      if (!(letter || (i > at_ && later))) break;
      i += c.size;
    }
    if (i == at_) return false;
    push(token_kind::name, std::string(rest().substr(0, i - at_)));
    advance(i - at_);
    return true;
  }

  void op(std::vector<char>& brackets) {
    static constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view p : pairs) {
      if (starts(p)) {
        push(token_kind::op, std::string(p));
        return advance(2);
      }
    }
    const char c = peek();
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail_here("unexpected character in an expression");
    }
    if (c == '(') brackets.push_back(')');
    if (c == '[') brackets.push_back(']');
    if (c == '{') brackets.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) {
        fail_here(brackets.empty() ? fmt::format("unexpected '{}'", c)
                                   : fmt::format("unexpected '{}', expected '{}'", c, brackets.back()));
      }
      brackets.pop_back();
    }
    push(token_kind::op, std::string(1, c));
    advance(1);
  }

  std::string source_;
  std::vector<lexeme> out_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

result<std::vector<lexeme>> tokenize(std::string_view source) {
  try {
    return scanner(normalized(source)).run();
  } catch (const syntax_problem& p) {
    return fail("template_syntax", fmt::format("chat template, line {}: {}", p.line, p.reason));
  }
}

}  // namespace kvern::chat
