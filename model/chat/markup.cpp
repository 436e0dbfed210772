#include "model/chat/markup.hpp"

#include <fmt/format.h>

#include "model/chat/print.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

/// One text with the spans [from, to) that satisfy a rule removed, in order.
class cutter {
 public:
  cutter(runtime& rt, const text& t) : out_(rt), text_(t) {}
  void cut(std::size_t from, std::size_t to) {
    if (from > at_) out_.add(text_.sub(at_, from - at_));
    if (to > at_) at_ = to;
  }
  val finish() {
    out_.add(text_.from(at_));
    return out_.finish();
  }

 private:
  text_builder out_;
  text text_;
  std::size_t at_ = 0;
};

text without(runtime& rt, const text& t, std::string_view open, std::string_view close) {
  cutter out(rt, t);
  const std::string_view s = t.view();
  for (std::size_t from = s.find(open); from != std::string_view::npos;) {
    const std::size_t to = s.find(close, from + open.size());
    if (to == std::string_view::npos) break;
    out.cut(from, to + close.size());
    from = s.find(open, to + close.size());
  }
  return out.finish().string();
}

text collapsed(runtime& rt, const text& t) {
  text_builder out(rt);
  const std::string_view s = t.view();
  std::size_t word = std::string_view::npos;
  for (std::size_t i = 0;;) {
    const auto c = i < s.size() ? unicode::decode(s, i) : unicode::code_point{' ', 1, true};
    const bool space = unicode::has(c.value, unicode::space);
    if (!space && word == std::string_view::npos) word = i;
    if (space && word != std::string_view::npos) {
      if (out.size() != 0) out.add(" ", t.trusted_at(word - 1));
      out.add(t.sub(word, i - word));
      word = std::string_view::npos;
    }
    if (i >= s.size()) break;
    i += c.size;
  }
  return out.finish().string();
}

}  // namespace

val escaped(runtime& rt, const val& v, bool force) {
  const val s = str_of(rt, v);
  if (s.markup() && !force) return s;
  rt.scan(s.string().size());
  text_builder out(rt);
  s.string().each_run([&](std::string_view bytes, bool trusted) {
    std::size_t at = 0;
    for (;;) {
      const std::size_t next = bytes.find_first_of("&<>\"'", at);
      out.add(bytes.substr(at, next - at), trusted);
      if (next == std::string_view::npos) break;
      const char c = bytes[next];
      out.add(c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : "&#39;", trusted);
      at = next + 1;
    }
  });
  return out.finish(true);
}

val stripped_of_tags(runtime& rt, const val& v) {
  const text whole = str_of(rt, v).string();
  rt.scan(4 * whole.size());
  const text plain = collapsed(rt, without(rt, without(rt, whole, "<!--", "-->"), "<", ">"));
  static constexpr std::pair<std::string_view, std::string_view> entities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}};
  text_builder out(rt);
  const std::string_view s = plain.view();
  std::size_t at = 0;
  for (std::size_t i = s.find('&'); i != std::string_view::npos; i = s.find('&', i + 1)) {
    for (const auto& [entity, character] : entities) {
      if (!s.substr(i).starts_with(entity)) continue;
      out.add(plain.sub(at, i - at));
      out.add(character, plain.trusted_at(i));
      at = i + entity.size();
      break;
    }
  }
  out.add(plain.from(at));
  return out.finish();
}

val percent_encoded(runtime& rt, const val& v, bool slashes) {
  const text t = str_of(rt, v).string();
  rt.scan(t.size());
  text_builder out(rt);
  t.each_run([&](std::string_view bytes, bool trusted) {
    std::string made;
    for (const char c : bytes) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                         c == '.' || c == '-' || c == '~' || (slashes && c == '/');
      if (plain) {
        made.push_back(c);
      } else {
        made += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    out.add(made, trusted);
  });
  return out.finish();
}

}  // namespace kvern::chat
