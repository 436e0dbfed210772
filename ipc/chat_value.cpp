#include "ipc/chat_value.hpp"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cmath>

#include "ipc/json_reader.hpp"

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
      return unsupported(name + ".type", name + ".type must be \"text\": this model takes nothing else");
    }
    const json::value* text = members->if_contains("text");
    if (text == nullptr || !text->is_string()) return bad_field(name + ".text", name + ".text must be a string");
  }
  return to_chat_value(content, param);
}

/// OpenAI writes the arguments of a tool call as a string that holds JSON; templates print an object with `tojson`. So
/// an object in the string is handed on as one. What is none, or holds numbers out of range, stays the string it is.
parsed<chat::value> arguments_of(const json::value& arguments, const std::string& param) {
  if (const json::string* text = arguments.if_string()) {
    if (const auto document = parse_json(*text); document && document->root().is_object()) {
      if (auto object = to_chat_value(document->root(), param)) return object;
    }
  }
  return to_chat_value(arguments, param);
}

/// The members of an object, each converted by `convert(key, value)`.
template <class Convert>
parsed<chat::value> members_of(const json::object& object, Convert convert) {
  chat::object members;
  members.reserve(object.size());
  for (const auto& [key, item] : object) {
    auto converted = convert(std::string_view(key), item);
    if (!converted) return converted;
    members.emplace_back(std::string(key), *std::move(converted));
  }
  return parsed<chat::value>(std::in_place, std::move(members));
}

template <class Convert>
parsed<chat::value> items_of(const json::array& array, Convert convert) {
  chat::array items;
  items.reserve(array.size());
  for (const json::value& item : array) {
    auto converted = convert(item);
    if (!converted) return converted;
    items.push_back(*std::move(converted));
  }
  return parsed<chat::value>(std::in_place, std::move(items));
}

parsed<chat::value> tool_call_of(const json::value& call, const std::string& param) {
  if (!call.is_object()) return to_chat_value(call, param);
  return members_of(call.get_object(), [&](std::string_view key, const json::value& item) {
    if (key != "function" || !item.is_object()) return to_chat_value(item, param);
    return members_of(item.get_object(), [&](std::string_view name, const json::value& member) {
      return name == "arguments" ? arguments_of(member, param) : to_chat_value(member, param);
    });
  });
}

parsed<chat::value> tool_calls_of(const json::value& calls, const std::string& param) {
  if (!calls.is_array()) return to_chat_value(calls, param);
  return items_of(calls.get_array(), [&](const json::value& call) { return tool_call_of(call, param); });
}

parsed<chat::value> member_of(std::string_view key, const json::value& item, const std::string& param) {
  if ((key == "audio" || key == "function_call") && !item.is_null()) {
    return unsupported(param, param + " is not supported here; leave it out");
  }
  if (key == "content") return content_of(item, param);
  if (key == "tool_calls") return tool_calls_of(item, param);
  return to_chat_value(item, param);
}

std::size_t count_values(const json::value& v, std::size_t limit) {
  std::size_t count = 1;
  if (const json::array* items = v.if_array()) {
    for (const json::value& item : *items) {
      if (count <= limit) count += count_values(item, limit);
    }
  } else if (const json::object* members = v.if_object()) {
    for (const auto& [key, item] : *members) {
      if (count <= limit) count += count_values(item, limit);
    }
  }
  return count;
}

}  // namespace

bool has_too_many_values(const json::value& v) { return count_values(v, max_chat_values) > max_chat_values; }

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
    case json::kind::array:
      return items_of(v.get_array(), [&](const json::value& item) { return to_chat_value(item, param); });
    case json::kind::object:
      return members_of(v.get_object(),
                        [&](std::string_view, const json::value& item) { return to_chat_value(item, param); });
  }
  return bad_field(std::string(param), fmt::format("{} holds a number out of range; send it as a string", param));
}

parsed<chat::value> to_messages(const json::array& messages) {
  if (messages.empty()) return bad_field("messages", "messages is empty; send at least one message");
  std::size_t index = 0;
  return items_of(messages, [&](const json::value& m) -> parsed<chat::value> {
    const std::string name = fmt::format("messages[{}]", index++);
    const json::object* members = m.if_object();
    if (members == nullptr) return bad_field(name, name + " must be an object");
    const json::value* role = members->if_contains("role");
    if (role == nullptr || !role->is_string()) return bad_field(name + ".role", name + ".role must be a string");
    auto message = members_of(*members, [&](std::string_view key, const json::value& item) {
      return member_of(key, item, fmt::format("{}.{}", name, key));
    });
    if (!message || members->contains("content")) return message;
    // Absent is the same as null; templates print `message.content` without asking whether it is there.
    chat::object with_content = *message->as_object();
    with_content.emplace_back("content", nullptr);
    return parsed<chat::value>(std::in_place, std::move(with_content));
  });
}

}  // namespace kvern::ipc
