#include "model/chat/string_ops.hpp"

#include <algorithm>

#include "model/chat/print.hpp"
#include "model/chat/search.hpp"

namespace kvern::chat {
namespace {

using unicode::code_point;
using unicode::mapping;

/// The case of ASCII of one run, without looking at characters one by one.
text ascii_case(runtime& rt, const text& t, bool upper) {
  text_builder out(rt);
  t.each_run([&](std::string_view bytes, bool trusted) {
    std::string made(bytes);
    for (char& c : made) {
      if (upper ? (c >= 'a' && c <= 'z') : (c >= 'A' && c <= 'Z')) c = static_cast<char>(c ^ 0x20);
    }
    out.add(made, trusted);
  });
  return out.finish().string();
}

void map_one(std::string& made, std::string_view s, std::size_t at, code_point c, letter_case to, bool first,
             bool after_cased) {
  switch (to) {
    case letter_case::lower:
      return unicode::append_lower_at(made, s, at, c);
    case letter_case::upper:
      return unicode::append_mapped(made, c.value, mapping::upper);
    case letter_case::title:
      if (after_cased) return unicode::append_lower_at(made, s, at, c);
      return unicode::append_mapped(made, c.value, mapping::title);
    case letter_case::capitalize:
      if (!first) return unicode::append_lower_at(made, s, at, c);
      return unicode::append_mapped(made, c.value, mapping::title);
    case letter_case::swap:
      if (unicode::has(c.value, unicode::upper)) return unicode::append_lower_at(made, s, at, c);
      if (unicode::has(c.value, unicode::lower)) return unicode::append_mapped(made, c.value, mapping::upper);
      return unicode::append(made, c.value);
  }
}

bool line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

void push(runtime& rt, std::vector<val>& out, const text& t) {
  rt.step();
  rt.memory(sizeof(val));
  out.push_back(val::of(t));
}

bool space_at(std::string_view s, std::size_t at, std::size_t& size) {
  const code_point c = unicode::decode(s, at);
  size = c.size;
  return unicode::has(c.value, unicode::space);
}

std::vector<val> split_at_space(runtime& rt, const text& t, std::int64_t limit) {
  std::vector<val> out;
  const std::string_view s = t.view();
  std::size_t size = 0;
  for (std::size_t i = 0; i < s.size();) {
    if (space_at(s, i, size)) {
      i += size;
      continue;
    }
    std::size_t end = i;
    if (limit >= 0 && static_cast<std::int64_t>(out.size()) >= limit) {
      push(rt, out, t.from(i));
      return out;
    }
    while (end < s.size() && !space_at(s, end, size)) end += size;
    push(rt, out, t.sub(i, end - i));
    i = end;
  }
  return out;
}

}  // namespace

text with_case(runtime& rt, const text& t, letter_case to) {
  rt.scan(t.size());
  if ((to == letter_case::lower || to == letter_case::upper) && t.ascii()) {
    return ascii_case(rt, t, to == letter_case::upper);
  }
  text_builder out(rt);
  trust_cursor trust(t);
  const std::string_view s = t.view();
  std::string made;
  bool made_trust = false;
  bool after_cased = false;
  for (std::size_t i = 0; i < s.size();) {
    const code_point c = unicode::decode(s, i);
    const bool trusted = trust.at(i);
    if (trusted != made_trust || made.size() > 4096) {
      out.add(made, made_trust);
      made.clear();
      made_trust = trusted;
    }
    map_one(made, s, i, c, to, i == 0, after_cased);
    after_cased = unicode::has(c.value, unicode::lower | unicode::upper | unicode::title);
    i += c.size;
  }
  out.add(made, made_trust);
  return out.finish().string();
}

text stripped(runtime& rt, const text& t, const text* chars, bool left, bool right) {
  const std::string_view s = t.view();
  const auto drop = [&](std::size_t at, std::size_t size) {
    if (chars == nullptr) return unicode::has(unicode::decode(s, at).value, unicode::space);
    rt.scan(chars->size());
    const std::string_view wanted = s.substr(at, size);
    const std::string_view set = chars->view();
    for (std::size_t i = 0; i < set.size();) {
      const std::size_t n = unicode::decode(set, i).size;
      if (set.substr(i, n) == wanted) return true;
      i += n;
    }
    return false;
  };
  std::size_t begin = 0;
  std::size_t end = s.size();
  while (left && begin < end) {
    const std::size_t n = unicode::decode(s, begin).size;
    if (!drop(begin, n)) break;
    begin += n;
  }
  while (right && end > begin) {
    const std::size_t at = unicode::before(s, end);
    if (!drop(at, end - at)) break;
    end = at;
  }
  rt.scan(s.size() - (end - begin));
  return t.sub(begin, end - begin);
}

text replaced(runtime& rt, const text& t, const text& from, const text& to, std::int64_t count) {
  rt.scan(t.size());
  const std::string_view s = t.view();
  if (count == 0) return t;
  if (from.empty()) {
    text_builder out(rt);
    std::int64_t left = count;
    for (std::size_t i = 0;;) {
      if (left != 0) {
        rt.step();
        out.add(to);
        if (left > 0) --left;
      }
      if (i >= s.size()) break;
      const std::size_t n = unicode::decode(s, i).size;
      out.add(t.sub(i, n));
      i += n;
    }
    return out.finish().string();
  }
  const searcher wanted(rt, from.view());
  std::size_t at = wanted.find(s);
  if (at == std::string_view::npos) return t;
  text_builder out(rt);
  std::size_t plain = 0;
  for (; at != std::string_view::npos && count != 0; at = wanted.find(s, plain)) {
    rt.step();
    out.add(t.sub(plain, at - plain));
    out.add(to);
    plain = at + from.size();
    if (count > 0) --count;
  }
  out.add(t.from(plain));
  return out.finish().string();
}

std::vector<val> split(runtime& rt, const text& t, const text* separator, std::int64_t limit) {
  rt.scan(t.size());
  if (separator == nullptr) return split_at_space(rt, t, limit);
  if (separator->empty()) fail_type("empty separator");
  std::vector<val> out;
  const std::string_view s = t.view();
  std::size_t from = 0;
  const searcher wanted(rt, separator->view());
  for (std::size_t at = wanted.find(s); at != std::string_view::npos && limit != 0; at = wanted.find(s, from)) {
    push(rt, out, t.sub(from, at - from));
    from = at + separator->size();
    if (limit > 0) --limit;
  }
  push(rt, out, t.from(from));
  return out;
}

std::vector<val> split_from_right(runtime& rt, const text& t, const text* separator, std::int64_t limit) {
  if (limit < 0) return split(rt, t, separator, limit);
  rt.scan(t.size());
  std::vector<val> out;
  const std::string_view s = t.view();
  std::size_t end = s.size();
  if (separator == nullptr) {
    for (;;) {
      const text rest = stripped(rt, t.sub(0, end), nullptr, false, true);
      end = rest.size();
      if (end == 0) break;
      if (limit == 0) {
        push(rt, out, rest);
        break;
      }
      std::size_t begin = end;
      while (begin > 0) {
        const std::size_t at = unicode::before(s, begin);
        std::size_t size = 0;
        if (space_at(s, at, size)) break;
        begin = at;
      }
      push(rt, out, t.sub(begin, end - begin));
      end = begin;
      --limit;
    }
  } else {
    if (separator->empty()) fail_type("empty separator");
    const searcher wanted(rt, separator->view(), searcher::direction::backward);
    while (limit > 0 && end >= separator->size()) {
      const std::size_t at = wanted.rfind(s.substr(0, end));
      if (at == std::string_view::npos) break;
      push(rt, out, t.sub(at + separator->size(), end - at - separator->size()));
      end = at;
      --limit;
    }
    push(rt, out, t.sub(0, end));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<val> split_lines(runtime& rt, const text& t, bool keep_ends) {
  rt.scan(t.size());
  std::vector<val> out;
  const std::string_view s = t.view();
  std::size_t from = 0;
  for (std::size_t i = 0; i < s.size();) {
    const code_point c = unicode::decode(s, i);
    const std::size_t at = i;
    i += c.size;
    if (!line_end(c.value)) continue;
    if (c.value == '\r' && i < s.size() && s[i] == '\n') ++i;
    push(rt, out, t.sub(from, (keep_ends ? i : at) - from));
    from = i;
  }
  if (from < s.size()) push(rt, out, t.from(from));
  return out;
}

text repeated_fill(runtime& rt, const text& fill, std::int64_t count) {
  if (count <= 0 || fill.empty()) return {};
  text_builder out(rt);
  out.add_repeated(fill, static_cast<std::uint64_t>(count));
  return out.finish().string();
}

val join(runtime& rt, const text& separator, const std::vector<val>& items) {
  text_builder out(rt);
  bool first = true;
  for (const val& item : items) {
    rt.step();
    if (!first) out.add(separator);
    first = false;
    out.add(str_of(rt, item).string());
  }
  return out.finish();
}

}  // namespace kvern::chat
