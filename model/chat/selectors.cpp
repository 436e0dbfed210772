#include "model/chat/selectors.hpp"

#include "model/chat/numbers.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/string_ops.hpp"

namespace kvern::chat {

attribute_path::attribute_path(runtime& rt, const val& path) {
  if (path.is(kind::none)) return;
  if (path.is_undefined()) fail_use(path);
  if (path.is_integral()) {
    keys_.push_back(path);
    return;
  }
  if (!path.is_string()) fail_type("an attribute is named by a string or a number");
  const text dot = rt.string_view(".", true).string();
  for (const val& part : split(rt, path.string(), &dot, -1)) {
    bool digits = !part.string().empty();
    for (const char c : part.view()) digits = digits && c >= '0' && c <= '9';
    const auto index = digits ? parse_integer(part.view(), 10) : std::nullopt;
    keys_.push_back(index ? val::of(*index) : part);
  }
}

val attribute_path::of(runtime& rt, const val& element) const {
  val v = element;
  for (const val& key : keys_) v = item(rt, v, key);
  return v;
}

val compared_key(runtime& rt, const val& v, bool case_sensitive) {
  if (case_sensitive || !v.is_string()) return v;
  return val::of(with_case(rt, v.string(), letter_case::lower));
}

}  // namespace kvern::chat
