#pragma once

#include <optional>
#include <vector>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// Looks up "a.b.0" in an element, as the `attribute` argument of filters does.
class attribute_path {
 public:
  /// None: the element itself.
  attribute_path() = default;
  /// Errors: `template_type` when `path` is neither string nor integer.
  attribute_path(runtime& rt, const val& path);
  val of(runtime& rt, const val& element) const;

 private:
  std::vector<val> keys_;
};

/// The key that sort, unique, min, max and groupby compare by: strings in lower case unless `case_sensitive`.
val compared_key(runtime& rt, const val& v, bool case_sensitive);

}  // namespace kvern::chat
