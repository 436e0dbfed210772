#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string_view>

#include "ipc/errors.hpp"
#include "model/chat/value.hpp"

namespace kvern::ipc {

/// JSON as a template sees it: keys in their order, integers and floats apart. Errors: `invalid_request` about `param`
/// for numbers that fit no int64 and no finite double.
parsed<chat::value> to_chat_value(const boost::json::value& v, std::string_view param);

/// Values of one field that goes to the template: more would hold up everybody's requests while it is converted.
inline constexpr std::size_t max_chat_values = 65536;

/// Whether `v`, with all that is in it, has more than max_chat_values values.
bool has_too_many_values(const boost::json::value& v);

/// The messages of a chat: a non-empty array of objects with a `role`, whose `content`, where there is one, is a
/// string, null or an array of text parts. Everything goes on as it is, but for tool_calls[].function.arguments: a
/// string that holds a JSON object becomes that object; and an absent `content` is null. Errors: `invalid_request`;
/// `unsupported` for parts that are no text.
parsed<chat::value> to_messages(const boost::json::array& messages);

}  // namespace kvern::ipc
