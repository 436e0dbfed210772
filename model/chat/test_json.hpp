#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/chat/value.hpp"

/// JSON of the tests as values; key order and the difference of 1 and 1.0 are kept.
namespace kvern::chat::test {

inline value from_boost(const boost::json::value& v) {
  switch (v.kind()) {
    case boost::json::kind::null:
      return nullptr;
    case boost::json::kind::bool_:
      return v.get_bool();
    case boost::json::kind::int64:
      return std::int64_t{v.get_int64()};
    case boost::json::kind::uint64:
      return static_cast<double>(v.get_uint64());
    case boost::json::kind::double_:
      return v.get_double();
    case boost::json::kind::string:
      return std::string(v.get_string());
    case boost::json::kind::array: {
      array a;
      for (const auto& item : v.get_array()) a.push_back(from_boost(item));
      return a;
    }
    case boost::json::kind::object: {
      object o;
      for (const auto& [key, item] : v.get_object()) o.emplace_back(std::string(key), from_boost(item));
      return o;
    }
  }
  return nullptr;
}

}  // namespace kvern::chat::test
