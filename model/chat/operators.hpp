#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/chat/ast.hpp"
#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// What the operators of the template language do, as Python's sandboxed Jinja has it. Comparing ignores trust.
/// Errors throughout: `template_type` for types that do not fit, `template_undefined` for the use of a missing value,
/// `template_security` for one that the sandbox hides, `template_limit`.

bool truth(const val& v);
bool equal(runtime& rt, const val& a, const val& b);
/// `is sameas`: identity, which strings and numbers of equal value are given.
bool same(const val& a, const val& b);
/// a < b
bool less(runtime& rt, const val& a, const val& b);
bool compare(runtime& rt, ast::op op, const val& a, const val& b);
/// needle in haystack
bool contains(runtime& rt, const val& haystack, const val& needle);

val binary(runtime& rt, ast::op op, const val& a, const val& b);
val negated(const val& v);
val positive(const val& v);

/// Errors: `template_type` for what has no length.
std::size_t length_of(runtime& rt, const val& v);

/// `v.name`: an attribute, else the item of that name, else undefined.
val attribute(runtime& rt, const val& v, const text& name);
/// An attribute proper, never an item. False: none.
bool find_attribute(runtime& rt, const val& v, const text& name, val& out);
/// `v[key]`: the item, else for a string key the attribute, else undefined.
val item(runtime& rt, const val& v, const val& key);
/// `v[start:stop:step]`. What cannot be sliced so is `template_type`, or undefined when `lenient`.
val sliced(runtime& rt, const val& v, const val& start, const val& stop, const val& step, bool lenient = false);

/// Errors: `template_type` when unhashable.
std::uint64_t hash_of(runtime& rt, const val& v);
std::uint64_t hash_of(std::string_view s);

/// Calls `f`. Errors: `template_type` when it cannot be called.
val call(runtime& rt, const val& f, arguments& args);

}  // namespace kvern::chat
