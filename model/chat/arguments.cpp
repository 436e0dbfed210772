#include "model/chat/arguments.hpp"

#include <fmt/format.h>

#include <limits>

#include "model/chat/operators.hpp"

namespace kvern::chat {

bound::bound(std::string_view function, const arguments& args, std::initializer_list<std::string_view> parameters,
             std::size_t required)
    : function_(function), values_(parameters.size()), given_(parameters.size(), false) {
  if (args.positional.size() > parameters.size()) {
    fail_type(fmt::format("{}() takes at most {} arguments, {} were given", function, parameters.size(),
                          args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) {
    values_[i] = args.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : args.named) {
    std::size_t i = 0;
    for (const std::string_view p : parameters) {
      if (p == name) break;
      ++i;
    }
    if (i == parameters.size()) fail_type(fmt::format("{}() got an unexpected keyword argument", function));
    if (given_[i]) fail_type(fmt::format("{}() got an argument twice", function));
    values_[i] = value;
    given_[i] = true;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!given_[i]) {
      fail_type(fmt::format("{}() misses its argument '{}'", function, *(parameters.begin() + i)));
    }
  }
}

bool bound::truth(std::size_t i, bool fallback) const { return has(i) ? chat::truth(values_[i]) : fallback; }

std::int64_t bound::integer(std::size_t i, std::int64_t fallback) const {
  return has(i) ? index_of(values_[i]) : fallback;
}

text bound::string(std::size_t i) const {
  const val& v = values_[i];
  if (v.is_undefined()) fail_use(v);
  if (!v.is_string()) fail_type(fmt::format("{}() needs a string, not {}", function_, type_name(v)));
  return v.string();
}

std::int64_t index_of(const val& v) {
  if (v.is_undefined()) fail_use(v);
  if (!v.is_integral()) fail_type(fmt::format("'{}' object cannot be interpreted as an integer", type_name(v)));
  const wide i = v.integer();
  if (i > std::numeric_limits<std::int64_t>::max() || i < std::numeric_limits<std::int64_t>::min()) {
    fail_limit("an integer of the chat template is too large here");
  }
  return static_cast<std::int64_t>(i);
}

}  // namespace kvern::chat
