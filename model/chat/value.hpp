#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvern::chat {

class value;
using array = std::vector<value>;
/// Keys in order of insertion, as templates print them.
using object = std::vector<std::pair<std::string, value>>;

/// Plain data given to a chat template: what JSON can say, with integers and floats told apart. Cheap to copy (arrays
/// and objects are shared and immutable). Its text is untrusted (never control tokens) but for `trusted_text`.
class value {
 public:
  value() = default;
  value(std::nullptr_t) {}
  value(bool b) : data_(b) {}
  value(std::int64_t i) : data_(i) {}
  value(int i) : data_(std::int64_t{i}) {}
  value(double d) : data_(d) {}
  value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  value(const char* s) : value(std::string(s)) {}
  value(array a) : data_(std::make_shared<const array>(std::move(a))) {}
  value(object o) : data_(std::make_shared<const object>(std::move(o))) {}

  /// Text that a rendering treats as the template's own, e.g. the model file's bos_token. Never for a user's words.
  static value trusted_text(std::string s) {
    value v(std::move(s));
    v.trusted_ = true;
    return v;
  }
  bool is_trusted() const { return trusted_; }

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  const double* as_double() const { return std::get_if<double>(&data_); }
  const std::string* as_string() const { return shared<std::string>(); }
  const array* as_array() const { return shared<array>(); }
  const object* as_object() const { return shared<object>(); }

 private:
  template <class T>
  const T* shared() const {
    const auto* p = std::get_if<std::shared_ptr<const T>>(&data_);
    return p ? p->get() : nullptr;
  }

  std::variant<std::monostate, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const array>, std::shared_ptr<const object>>
      data_;
  bool trusted_ = false;
};

}  // namespace kvern::chat
