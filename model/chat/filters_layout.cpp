#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/methods.hpp"
#include "model/chat/numbers.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/string_ops.hpp"

namespace kvern::chat {
namespace {

/// Indentation and line ends that the filter makes take the trust of the line they belong to.
val indent(runtime& rt, const val& v, arguments& args) {
  const bound b("indent", args, {"width", "first", "blank"});
  if (v.is_undefined()) fail_use(v);
  if (!v.is_string()) fail_type(fmt::format("indent needs a string, not {}", type_name(v)));
  const text& t = v.string();
  text given;
  std::uint64_t width = 4;
  const bool words = b.has(0) && b[0].is_string();
  if (words) {
    given = b[0].string();
  } else {
    const std::int64_t asked = b.integer(0, 4);
    width = asked < 0 ? 0 : static_cast<std::uint64_t>(asked);
    if (width > rt.memory_left()) fail_limit("an indentation takes too much memory");
  }
  const bool blank = b.truth(2, false);
  text_builder out(rt);
  const text space_trusted = rt.string_view(" ", true).string();
  const text space = rt.string_view(" ", false).string();
  const auto lead = [&](bool trusted) {
    if (words) {
      out.add(given);
    } else {
      out.add_repeated(trusted ? space_trusted : space, width);
    }
  };
  // The added newline makes an empty last line where the text ends in one, as Jinja's does.
  std::vector<val> lines = split_lines(rt, t, true);
  const auto content = [](const text& line) {
    std::size_t n = line.size();
    if (n == 0) return line;
    const std::size_t at = unicode::before(line.view(), n);
    const char32_t c = unicode::decode(line.view(), at).value;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) return line;
    n = c == '\n' && at > 0 && line.view()[at - 1] == '\r' ? at - 1 : at;
    return line.sub(0, n);
  };
  const bool open_end = lines.empty() || content(lines.back().string()).size() != lines.back().string().size();
  if (open_end) lines.push_back(val::of(text()));
  bool previous_trust = true;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const text line = lines[i].string();
    const text body = content(line);
    const bool trusted = line.empty() ? previous_trust : line.trusted_at(0);
    if (i > 0) out.add("\n", previous_trust);
    const bool indented = i == 0 ? b.truth(1, false) : blank || !body.empty();
    if (indented) lead(trusted);
    out.add(body);
    if (!line.empty()) previous_trust = line.trusted_at(line.size() - 1);
  }
  return out.finish(v.markup());
}

val truncate(runtime& rt, const val& v, arguments& args) {
  const bound b("truncate", args, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = b.integer(0, 255);
  const std::int64_t leeway = b.set(3) ? b.integer(3, 5) : 5;
  text end = rt.string_view("...", true).string();
  if (b.has(2)) end = b.string(2);
  const auto end_length = static_cast<std::int64_t>(length_of(rt, val::of(end)));
  if (length < end_length) fail_type("truncate's length is shorter than its end");
  if (leeway < 0) fail_type("truncate's leeway is negative");
  const std::size_t size = length_of(rt, v);
  if (static_cast<std::int64_t>(size) <= length || static_cast<std::int64_t>(size) - length <= leeway) return v;
  if (!v.is_string()) fail_type(fmt::format("truncate needs a string, not {}", type_name(v)));
  text head = v.string().sub(0, v.string().offset_of(static_cast<std::size_t>(length - end_length)));
  if (!b.truth(1, false)) {
    const std::size_t space = head.view().rfind(' ');
    if (space != std::string_view::npos) head = head.sub(0, space);
  }
  return val::of(joined(rt, head, end));
}

val center(runtime& rt, const val& v, arguments& args) {
  const bound b("center", args, {"width"});
  arguments inner;
  inner.positional.push_back(val::of(static_cast<wide>(b.integer(0, 80))));
  return find_string_method("center")(rt, str_of(rt, v), inner);
}

val filesizeformat(runtime& rt, const val& v, arguments& args) {
  const bound b("filesizeformat", args, {"binary"});
  const std::optional<double> given = to_real(v);
  if (!given) fail_type("filesizeformat needs a number");
  const bool binary = b.truth(0, false);
  const double base = binary ? 1024 : 1000;
  static constexpr std::string_view decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr std::string_view binaries[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  if (*given == 1) return rt.string("1 Byte");
  if (*given < base) return rt.string(fmt::format("{:.0f} Bytes", std::trunc(*given)));
  double unit = base * base;
  std::size_t i = 0;
  while (i < 7 && *given >= unit) {
    unit *= base;
    ++i;
  }
  return rt.string(fmt::format("{:.1f} {}", base * *given / unit, binary ? binaries[i] : decimal[i]));
}

constexpr std::array<filter_entry, 4> entries = {
    {{"indent", indent}, {"truncate", truncate}, {"center", center}, {"filesizeformat", filesizeformat}}};

}  // namespace

std::span<const filter_entry> layout_filters() { return entries; }

}  // namespace kvern::chat
