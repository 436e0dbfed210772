#include "ipc/json_reader.hpp"

#include <fmt/format.h>

#include <boost/json/parser.hpp>
#include <cmath>
#include <new>

namespace kvern::ipc {
namespace {

namespace json = boost::json;

/// Heap memory up to a limit; beyond it std::bad_alloc, which parse_json turns into an error.
class bounded_memory final : public json::memory_resource {
 public:
  explicit bounded_memory(std::size_t limit) : left_(limit) {}

 private:
  // Boost.JSON frees with another alignment than it allocated with: what plain new gives suits all it asks for.
  void* do_allocate(std::size_t bytes, std::size_t /*align*/) override {
    if (bytes > left_) throw std::bad_alloc();
    void* p = ::operator new(bytes);
    left_ -= bytes;
    return p;
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t /*align*/) override {
    ::operator delete(p);
    left_ += bytes;
  }
  bool do_is_equal(const json::memory_resource& other) const noexcept override { return this == &other; }

  std::size_t left_;
};

std::unexpected<request_error> bad_json(std::string message) {
  return std::unexpected(request_error{error{"invalid_json", std::move(message)}, {}});
}

std::string_view kind_of(const json::value& v) {
  switch (v.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "something else";
}

bool is_off(const json::value& v) {
  switch (v.kind()) {
    case json::kind::null:
      return true;
    case json::kind::bool_:
      return !v.get_bool();
    case json::kind::int64:
      return v.get_int64() == 0;
    case json::kind::uint64:
      return v.get_uint64() == 0;
    case json::kind::double_:
      return v.get_double() == 0;
    case json::kind::string:
      return v.get_string().empty();
    case json::kind::array:
      return v.get_array().empty();
    case json::kind::object:
      return v.get_object().empty();
  }
  return false;
}

}  // namespace

parsed<json_document> parse_json(std::string_view text) {
  try {
    auto memory = std::make_shared<bounded_memory>(2 * text.size() + (std::size_t{64} << 20));
    json::parse_options options;
    options.max_depth = max_json_depth;
    json::parser parser(json::storage_ptr(memory.get()), options);
    parser.reset(json::storage_ptr(memory.get()));
    json::error_code ec;
    parser.write(text.data(), text.size(), ec);
    if (ec == json::error::too_deep) {
      return bad_json(fmt::format("the JSON body nests deeper than {} levels; flatten it", max_json_depth));
    }
    if (ec) return bad_json(fmt::format("the body is not valid JSON: {}", ec.message()));
    return json_document(memory, parser.release());
  } catch (const std::exception&) {
    return bad_json("the JSON body holds too many values; send a smaller one");
  }
}

parsed<json_document> parse_json_object(std::string_view text) {
  if (text.empty()) return bad_json("the body is empty; send a JSON object");
  auto document = parse_json(text);
  if (document && !document->root().is_object()) return bad_json("the body must be a JSON object");
  return document;
}

fields::fields(const json::object& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

const json::value* fields::find(std::string_view name) const {
  const json::value* v = object_.if_contains(name);
  return v != nullptr && !v->is_null() ? v : nullptr;
}

std::optional<bool> fields::boolean(std::string_view name) {
  const json::value* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (v->is_bool()) return v->get_bool();
  fail(name, fmt::format("must be a boolean, not {}", kind_of(*v)));
  return std::nullopt;
}

std::optional<std::int64_t> fields::integer(std::string_view name, std::int64_t min, std::int64_t max) {
  const json::value* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) {
    fail(name, fmt::format("must be an integer, not {}", kind_of(*v)));
    return std::nullopt;
  }
  const auto i = to_integer(*v, min, max);
  if (!i) fail(name, fmt::format("must be an integer from {} to {}", min, max));
  return i;
}

std::optional<std::uint64_t> fields::unsigned_integer(std::string_view name) {
  const json::value* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (v->is_uint64()) return v->get_uint64();
  if (const auto i = to_integer(*v, 0, std::numeric_limits<std::int64_t>::max())) return static_cast<std::uint64_t>(*i);
  fail(name, "must be an integer from 0 to 18446744073709551615");
  return std::nullopt;
}

std::optional<double> fields::number(std::string_view name, double min, double max) {
  const json::value* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) {
    fail(name, fmt::format("must be a number, not {}", kind_of(*v)));
    return std::nullopt;
  }
  const auto d = v->to_number<double>();
  if (!std::isfinite(d) || d < min || d > max) {
    fail(name, fmt::format("must be a number from {} to {}", min, max));
    return std::nullopt;
  }
  return d;
}

std::optional<std::string> fields::string(std::string_view name) {
  const json::value* v = find(name);
  if (v == nullptr) return std::nullopt;
  if (v->is_string()) return std::string(v->get_string());
  fail(name, fmt::format("must be a string, not {}", kind_of(*v)));
  return std::nullopt;
}

const json::object* fields::object(std::string_view name) {
  const json::value* v = find(name);
  if (v == nullptr) return nullptr;
  if (v->is_object()) return &v->get_object();
  fail(name, fmt::format("must be an object, not {}", kind_of(*v)));
  return nullptr;
}

const json::array* fields::array(std::string_view name) {
  const json::value* v = find(name);
  if (v == nullptr) return nullptr;
  if (v->is_array()) return &v->get_array();
  fail(name, fmt::format("must be an array, not {}", kind_of(*v)));
  return nullptr;
}

void fields::refuse(std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const json::value* v = find(name);
    if (v != nullptr && !is_off(*v)) fail(name, "is not supported here; leave it out", "unsupported");
  }
}

void fields::fail(std::string_view name, std::string message, std::string code) {
  if (failure_) return;
  std::string param = prefix_ + std::string(name);
  std::string sentence = fmt::format("{} {}", param, message);
  failure_ = request_error{error{std::move(code), std::move(sentence)}, std::move(param)};
}

std::optional<std::int64_t> to_integer(const json::value& v, std::int64_t min, std::int64_t max) {
  std::int64_t i = 0;
  if (v.is_int64()) {
    i = v.get_int64();
  } else if (v.is_double()) {
    const double d = v.get_double();
    // Beyond 2^53 a double is no longer one integer.
    if (!(std::abs(d) <= 9007199254740992.0) || d != std::trunc(d)) return std::nullopt;
    i = static_cast<std::int64_t>(d);
  } else {
    return std::nullopt;
  }
  if (i < min || i > max) return std::nullopt;
  return i;
}

}  // namespace kvern::ipc
