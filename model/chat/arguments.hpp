#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// The arguments of a call matched to a function's parameters, as Python does.
/// Errors: `template_type` for too many, too few or unknown ones.
class bound {
 public:
  bound(std::string_view function, const arguments& args, std::initializer_list<std::string_view> parameters,
        std::size_t required = 0);

  bool has(std::size_t i) const { return given_[i]; }
  const val& operator[](std::size_t i) const { return values_[i]; }
  /// Given and not None.
  bool set(std::size_t i) const { return given_[i] && !values_[i].is(kind::none); }
  bool truth(std::size_t i, bool fallback) const;
  /// Errors: `template_type` when it is no integer, `template_limit` outside 64 bits.
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  /// Errors: `template_type` when it is no string.
  text string(std::size_t i) const;

 private:
  std::string_view function_;
  std::vector<val> values_;
  std::vector<bool> given_;
};

/// Errors: `template_type` when `v` is no integer, `template_undefined`; `template_limit` outside 64 bits.
std::int64_t index_of(const val& v);

}  // namespace kvern::chat
