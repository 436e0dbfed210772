#include "ipc/prompt_fields.hpp"

#include <fmt/format.h>

#include "ipc/chat_value.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

/// Records the error of a conversion and yields the value.
chat::value taken(fields& body, parsed<chat::value> v) {
  if (v) return *std::move(v);
  // The message begins with the field's name already.
  std::string message = std::move(v.error().why.message);
  const std::string& param = v.error().param;
  if (message.starts_with(param + " ")) message.erase(0, param.size() + 1);
  body.fail(param, std::move(message), v.error().why.code);
  return {};
}

void read_tools(fields& body, chat_prompt& chat) {
  bool none = false;
  if (const json::value* choice = body.find("tool_choice")) {
    none = choice->is_string() && choice->get_string() == "none";
    if (!none && !(choice->is_string() && choice->get_string() == "auto")) {
      body.fail("tool_choice", "can only be \"none\" or \"auto\" here; calls cannot be enforced", "unsupported");
      return;
    }
  }
  const json::array* tools = body.array("tools");
  if (tools == nullptr || tools->empty()) return;
  if (body.boolean("parallel_tool_calls") == false) {
    body.fail("parallel_tool_calls", "cannot be enforced here; leave it out", "unsupported");
    return;
  }
  for (const json::value& tool : *tools) {
    if (!tool.is_object()) {
      body.fail("tools", "must be an array of objects");
      return;
    }
  }
  if (!none) chat.tools = taken(body, to_chat_value(*body.find("tools"), "tools"));
}

void read_arguments(fields& body, chat_prompt& chat) {
  chat::object arguments;
  if (const auto effort = body.string("reasoning_effort")) arguments.emplace_back("reasoning_effort", *effort);
  if (body.object("chat_template_kwargs") != nullptr) {
    const chat::value given = taken(body, to_chat_value(*body.find("chat_template_kwargs"), "chat_template_kwargs"));
    if (const chat::object* members = given.as_object()) {
      for (const auto& [key, value] : *members) {
        // These are fields of the request; a second way to give them could only contradict.
        if (key == "messages" || key == "tools" || key == "add_generation_prompt") {
          body.fail("chat_template_kwargs", fmt::format("cannot hold {}; give it as a field of the request", key));
          return;
        }
        std::erase_if(arguments, [&k = key](const auto& a) { return a.first == k; });
        arguments.emplace_back(key, value);
      }
    }
  }
  if (!arguments.empty()) chat.arguments = chat::value(std::move(arguments));
}

/// An assistant's message at the end is always continued. A caller may say so; saying the opposite cannot be kept.
void check_continuation(fields& body, const chat_prompt& chat) {
  const chat::array* messages = chat.messages.as_array();
  if (messages == nullptr || messages->empty()) return;
  bool assistant_last = false;
  for (const auto& [key, value] : *messages->back().as_object()) {
    if (key == "role") assistant_last = *value.as_string() == "assistant";
  }
  const auto wanted = body.boolean("continue_final_message");
  if (wanted && *wanted != assistant_last) {
    body.fail("continue_final_message", assistant_last ? "cannot be false: a last message of the assistant is continued"
                                                       : "needs the last message to be the assistant's");
  }
}

}  // namespace

std::vector<token_id> read_tokens(fields& body, std::string_view name, const json::array& ids, std::int64_t vocab) {
  std::vector<token_id> tokens;
  tokens.reserve(ids.size());
  for (const json::value& id : ids) {
    const auto token = to_integer(id, 0, vocab - 1);
    if (!token) {
      body.fail(name, fmt::format("must hold token ids of this model, integers from 0 to {}", vocab - 1));
      return {};
    }
    tokens.push_back(static_cast<token_id>(*token));
  }
  return tokens;
}

std::vector<kvern::prompt> read_prompts(fields& body, std::int64_t vocab) {
  constexpr std::string_view shapes = "must be a string, an array of strings, of token ids, or of arrays of token ids";
  text_prompt text;
  text.add_special = body.boolean("add_special_tokens").value_or(true);
  text.parse_special = body.boolean("parse_special").value_or(false);
  std::vector<kvern::prompt> prompts;
  const json::value* prompt = body.find("prompt");
  if (prompt == nullptr) {
    body.fail("prompt", "is missing");
    return prompts;
  }
  if (const json::string* s = prompt->if_string()) {
    text.text = std::string_view(*s);
    prompts.emplace_back(std::move(text));
    return prompts;
  }
  const json::array* list = prompt->if_array();
  if (list == nullptr || list->empty()) {
    body.fail("prompt", list != nullptr ? "is an empty array; send at least one prompt" : std::string(shapes));
    return prompts;
  }
  if (list->front().is_number()) {
    prompts.emplace_back(read_tokens(body, "prompt", *list, vocab));
    return prompts;
  }
  const bool strings = list->front().is_string();
  for (const json::value& item : *list) {
    if (strings && item.is_string()) {
      text.text = std::string_view(item.get_string());
      prompts.emplace_back(text);
    } else if (!strings && item.is_array()) {
      prompts.emplace_back(read_tokens(body, "prompt", item.get_array(), vocab));
    } else {
      body.fail("prompt", std::string(shapes));
    }
    if (body.failure()) return prompts;
  }
  return prompts;
}

chat_prompt read_chat(fields& body) {
  chat_prompt chat;
  for (const std::string_view name : {"messages", "tools", "chat_template_kwargs"}) {
    const json::value* field = body.find(name);
    if (field != nullptr && has_too_many_values(*field)) {
      body.fail(name, fmt::format("holds more than {} values; send fewer", max_chat_values));
      return chat;
    }
  }
  if (const json::array* messages = body.array("messages")) {
    chat.messages = taken(body, to_messages(*messages));
  } else {
    body.fail("messages", "is missing");
  }
  read_tools(body, chat);
  read_arguments(body, chat);
  chat.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  check_continuation(body, chat);
  return chat;
}

}  // namespace kvern::ipc
