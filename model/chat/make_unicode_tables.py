#!/usr/bin/env python3
"""Writes unicode_tables.hpp from the Unicode data of the Python that runs it (3.11: Unicode 14)."""
import sys
import unicodedata

N = 0x110000
chars = [chr(c) if not 0xD800 <= c <= 0xDFFF else None for c in range(N)]
BITS = ["alpha", "lower", "upper", "title", "decimal", "digit", "numeric", "space", "printable", "cased", "ignorable"]


def flags(c):
    s = chars[c]
    if s is None:
        return 0
    cat = unicodedata.category(s)
    final = lambda before: (before + "\u03a3").lower()[-1] == "\u03c2"
    # The final sigma rule of str.lower shows which characters it takes for cased and which it skips.
    cased = final(s)
    ignorable = not cased and final("A" + s)
    bits = [s.isalpha(), s.islower(), s.isupper(), cat == "Lt", s.isdecimal(), s.isdigit(), s.isnumeric(), s.isspace(),
            s.isprintable(), cased, ignorable]
    return sum(1 << i for i, b in enumerate(bits) if b)


def ranges(pairs):
    """(first, last, stride, delta): stride 1 or 2."""
    out = []
    for c, d in pairs:
        if out:
            first, last, stride, delta = out[-1]
            if delta == d and (c - last == stride or (first == last and c - last in (1, 2))):
                out[-1] = (first, c, c - last, d)
                continue
        out.append((c, c, 1, d))
    return out


def emit_map(out, name, fn):
    simple, special = [], []
    for c in range(128, N):
        s = chars[c]
        if s is None:
            continue
        m = fn(s)
        if m == s:
            continue
        if len(m) == 1:
            simple.append((c, ord(m) - c))
        else:
            special.append((c, [ord(x) for x in m] + [0] * (3 - len(m))))
    rows = ["{0x%X, 0x%X, %d, %d}" % r for r in ranges(simple)]
    wrap(out, "inline constexpr case_range %s_ranges[] = {" % name, rows)
    rows = ["{0x%X, {%s}}" % (c, ", ".join("0x%X" % x for x in m)) for c, m in special]
    wrap(out, "inline constexpr case_special %s_specials[] = {" % name, rows)


def wrap(out, head, rows):
    out.append(head)
    line = "   "
    for r in rows:
        if len(line) + len(r) + 2 > 118:
            out.append(line)
            line = "   "
        line += " " + r + ","
    out.append(line)
    out.append("};")


out = ["#pragma once", "", "// Made by make_unicode_tables.py (Unicode %s). Not for editing." % unicodedata.unidata_version, "",
       "#include <cstdint>", "", "// clang-format off", "namespace kvern::chat::tables {", "",
       "/// Code points `first`..`last` in steps of `stride` map to themselves plus `delta`.",
       "struct case_range { std::uint32_t first, last, stride; std::int32_t delta; };",
       "/// A code point that maps to up to three (0 ends).",
       "struct case_special { std::uint32_t from; std::uint32_t to[3]; };", ""]
out.append("/// Runs of equal properties: (first code point << 11) | property bits.")
runs, last = [], None
for c in range(N):
    f = flags(c)
    if f != last:
        runs.append("0x%X" % (c << 11 | f))
        last = f
wrap(out, "inline constexpr std::uint32_t properties[] = {", runs)
out.append("/// First code points of the runs of ten decimal digits.")
wrap(out, "inline constexpr std::uint32_t decimal_zeros[] = {",
     ["0x%X" % c for c in range(N) if chars[c] and chars[c].isdecimal() and unicodedata.decimal(chars[c]) == 0])
emit_map(out, "upper", str.upper)
emit_map(out, "lower", str.lower)
emit_map(out, "title", str.title)
out += ["", "}  // namespace kvern::chat::tables", "// clang-format on", ""]
open(sys.argv[1] if len(sys.argv) > 1 else "unicode_tables.hpp", "w").write("\n".join(out))
