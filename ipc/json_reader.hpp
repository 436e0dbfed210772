#pragma once

#include <boost/json/array.hpp>
#include <boost/json/memory_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ipc/errors.hpp"

namespace kvern::ipc {

/// Arrays and objects may lie in each other this deep.
inline constexpr std::size_t max_json_depth = 64;

/// A parsed JSON text and the bounded memory it lives in.
class json_document {
 public:
  json_document(std::shared_ptr<boost::json::memory_resource> memory, boost::json::value root)
      : memory_(std::move(memory)), root_(std::move(root)) {}
  json_document(json_document&&) = default;
  json_document& operator=(json_document&&) = delete;

  const boost::json::value& root() const { return root_; }

 private:
  std::shared_ptr<boost::json::memory_resource> memory_;
  boost::json::value root_;
};

/// Parses UTF-8 JSON. Of keys that occur twice in an object the last one counts. Errors: `invalid_json` for bad syntax,
/// invalid UTF-8, lone surrogates, nesting beyond `max_json_depth`, and values that would take more than
/// 2 * text.size() + 64 MiB of memory.
parsed<json_document> parse_json(std::string_view text);

/// Like parse_json, for a text that must be an object.
parsed<json_document> parse_json_object(std::string_view text);

/// Typed access to the fields of an object. An absent field and null are the same: nullopt. The first field that is
/// wrong is kept; after it the getters go on to return nullopt or values, and `failure` tells.
/// Does not own the object; not thread-safe.
class fields {
 public:
  /// `prefix` is put before names in errors ("stream_options.").
  explicit fields(const boost::json::object& object, std::string prefix = {});

  /// The field, or nullptr when it is absent or null.
  const boost::json::value* find(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name);
  /// An integer within [min, max]; 5.0 counts as 5.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max);
  std::optional<std::uint64_t> unsigned_integer(std::string_view name);
  /// A finite number within [min, max].
  std::optional<double> number(std::string_view name, double min, double max);
  std::optional<std::string> string(std::string_view name);
  const boost::json::object* object(std::string_view name);
  const boost::json::array* array(std::string_view name);

  /// Fails with `unsupported` when one of `names` is there and set: not null, false, 0, "", [] or {}.
  void refuse(std::span<const std::string_view> names);

  void fail(std::string_view name, std::string message, std::string code = "invalid_request");
  const std::optional<request_error>& failure() const { return failure_; }

 private:
  const boost::json::object& object_;
  std::string prefix_;
  std::optional<request_error> failure_;
};

/// The integer that `v` is, within [min, max], or nullopt.
std::optional<std::int64_t> to_integer(const boost::json::value& v, std::int64_t min, std::int64_t max);

}  // namespace kvern::ipc
