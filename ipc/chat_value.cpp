#include "ipc/chat_value.hpp"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cmath>

namespace kvern::ipc {
namespace {

namespace json = boost::json;

std::unexpected<request_error> unsupported(std::string param, std::string message) {
  return std::unexpected(request_error{error{"unsupported", std::move(message)}, std::move(param)});
}

/// Parts stay parts: how a template takes them is the template layer's business. They have to be text.
parsed<chat::value> content_of(const json::value& content, const std::string& param) {
  if (content.is_string() || content.is_null()) return to_chat_value(content, param);
  if (!content.is_array()) return bad_field(param, param + " must be a string, null or an array of parts");
  std::size_t index = 0;
  for (const json::value& part : content.get_array()) {
    const std::string name = fmt::format("{}[{}]", param, index++);
    const json::object* members = part.if_object();
    const json::value* type = members != nullptr ? members->if_contains("type") : nullptr;
    if (type == nullptr || !type->is_string()) return bad_field(name, name + " must be an object with a string `type`");
    if (type->get_string() != "text") {
      return unsupported(name + ".type", name + ".type: this model takes text only; send parts of type \"text\"");
    }
    const json::value* text = members->if_contains("text");
    if (text == nullptr || !text->is_string()) return bad_field(name + ".text", name + ".text must be a string");
  }
  return to_chat_value(content, param);
}

}  // namespace

// The parser bounds the depth of `v`, and so of this recursion, by max_json_depth.
parsed<chat::value> to_chat_value(const json::value& v, std::string_view param) {
  switch (v.kind()) {
    case json::kind::null:
      return parsed<chat::value>(std::in_place);
    case json::kind::bool_:
      return parsed<chat::value>(std::in_place, v.get_bool());
    case json::kind::int64:
      return parsed<chat::value>(std::in_place, v.get_int64());
    case json::kind::uint64:
      break;
    case json::kind::double_:
      if (!std::isfinite(v.get_double())) break;
      return parsed<chat::value>(std::in_place, v.get_double());
    case json::kind::string:
      return parsed<chat::value>(std::in_place, std::string(v.get_string()));
    case json::kind::array: {
      chat::array items;
      items.reserve(v.get_array().size());
      for (const json::value& item : v.get_array()) {
        auto converted = to_chat_value(item, param);
        if (!converted) return converted;
        items.push_back(*std::move(converted));
      }
      return parsed<chat::value>(std::in_place, std::move(items));
    }
    case json::kind::object: {
      chat::object members;
      members.reserve(v.get_object().size());
      for (const auto& [key, item] : v.get_object()) {
        auto converted = to_chat_value(item, param);
        if (!converted) return converted;
        members.emplace_back(std::string(key), *std::move(converted));
      }
      return parsed<chat::value>(std::in_place, std::move(members));
    }
  }
  return bad_field(std::string(param), fmt::format("{} holds a number out of range; send it as a string", param));
}

parsed<chat::value> to_messages(const json::array& messages) {
  if (messages.empty()) return bad_field("messages", "messages is empty; send at least one message");
  chat::array out;
  out.reserve(messages.size());
  std::size_t index = 0;
  for (const json::value& m : messages) {
    const std::string name = fmt::format("messages[{}]", index++);
    const json::object* members = m.if_object();
    if (members == nullptr) return bad_field(name, name + " must be an object");
    const json::value* role = members->if_contains("role");
    if (role == nullptr || !role->is_string()) return bad_field(name + ".role", name + ".role must be a string");
    chat::object message;
    message.reserve(members->size());
    for (const auto& [key, item] : *members) {
      const std::string param = name + "." + std::string(key);
      if ((key == "audio" || key == "function_call") && !item.is_null()) {
        return unsupported(param, param + " is not supported here; leave it out");
      }
      auto converted = key == "content" ? content_of(item, param) : to_chat_value(item, param);
      if (!converted) return converted;
      message.emplace_back(std::string(key), *std::move(converted));
    }
    out.emplace_back(std::move(message));
  }
  return parsed<chat::value>(std::in_place, std::move(out));
}

}  // namespace kvern::ipc
