#include "model/chat/chat_prompt.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

const value* find(const value& v, std::string_view key) {
  const object* o = v.as_object();
  if (o == nullptr) return nullptr;
  for (const auto& [name, item] : *o) {
    if (name == key) return &item;
  }
  return nullptr;
}

std::string_view text_at(const value& v, std::string_view key) {
  const value* found = find(v, key);
  const std::string* s = found == nullptr ? nullptr : found->as_string();
  return s == nullptr ? std::string_view() : std::string_view(*s);
}

value with(const value& message, std::string_view key, const value& replacement) {
  object o = *message.as_object();
  for (auto& [name, item] : o) {
    if (name == key) item = replacement;
  }
  return o;
}

bool only_text(const array& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const value& p) {
    const value* text = find(p, "text");
    return text_at(p, "type") == "text" && text != nullptr && text->as_string() != nullptr;
  });
}

std::string joined_parts(const array& parts) {
  std::string out;
  for (const value& p : parts) {
    if (!out.empty()) out += '\n';
    out += text_at(p, "text");
  }
  return out;
}

/// A message with its content as the template takes it.
result<value> fitted(const chat_template& tmpl, const value& message) {
  const value* content = find(message, "content");
  if (content == nullptr) return message;
  if (content->is_null()) return tmpl.traits().null_content ? message : with(message, "content", "");
  const array* parts = content->as_array();
  if (parts == nullptr || tmpl.traits().content_parts) return message;
  if (!only_text(*parts)) {
    return fail("template_error", "this model's chat template takes text only; send the content as text");
  }
  return with(message, "content", joined_parts(*parts));
}

std::string_view trimmed(std::string_view s) {
  std::size_t begin = 0;
  while (begin < s.size()) {
    const auto c = unicode::decode(s, begin);
    if (!unicode::has(c.value, unicode::space)) break;
    begin += c.size;
  }
  std::size_t end = s.size();
  while (end > begin) {
    const std::size_t at = unicode::before(s, end);
    if (!unicode::has(unicode::decode(s, at).value, unicode::space)) break;
    end = at;
  }
  return s.substr(begin, end - begin);
}

/// The text that a continued message ends with; of parts, the last one's.
std::string_view final_text(const value& message) {
  const value* content = find(message, "content");
  const array* parts = content == nullptr ? nullptr : content->as_array();
  if (parts != nullptr) return parts->empty() ? std::string_view() : trimmed(text_at(parts->back(), "text"));
  return trimmed(text_at(message, "content"));
}

value context_of(array messages, const value& tools, const value& arguments, bool add_generation_prompt,
                 std::string_view bos, std::string_view eos) {
  object o;
  o.emplace_back("documents", nullptr);
  if (const object* more = arguments.as_object()) o.insert(o.end(), more->begin(), more->end());
  // The last of two equal names counts.
  o.emplace_back("messages", std::move(messages));
  const bool no_tools = tools.as_array() != nullptr && tools.as_array()->empty();
  o.emplace_back("tools", no_tools ? value() : tools);
  o.emplace_back("bos_token", value::trusted_text(std::string(bos)));
  o.emplace_back("eos_token", value::trusted_text(std::string(eos)));
  o.emplace_back("add_generation_prompt", add_generation_prompt);
  return o;
}

/// Ends the text with `content`, which must be the end of the last text that is not the template's own (but for white
/// space): an earlier occurrence may be another message's.
result<std::vector<rendered_part>> cut_after(std::vector<rendered_part> parts, std::string_view content) {
  for (std::size_t i = parts.size(); i-- > 0;) {
    if (parts[i].trusted) continue;
    std::string& last = parts[i].text;
    const std::string_view shown = trimmed(last);
    if (shown.empty()) continue;
    if (!shown.ends_with(content)) break;
    last.resize(static_cast<std::size_t>(shown.data() - last.data()) + shown.size());
    parts.resize(i + 1);
    return parts;
  }
  return fail("template_error",
              "this model's chat template does not render the last assistant message as it is, so it cannot be "
              "continued; end the messages with another role");
}

value message(std::string_view role, value content) {
  return object{{"role", std::string(role)}, {"content", std::move(content)}};
}

constexpr std::string_view mark = "kvernprobe";

struct probe_data {
  value user = message("user", std::string(mark));
  value parts = message("user", array{object{{"type", "text"}, {"text", std::string(mark)}}});
  value tools = array{
      object{{"type", "function"},
             {"function",
              object{{"name", "look"},
                     {"description", "Looks."},
                     {"parameters",
                      object{{"type", "object"},
                             {"properties", object{{"where", object{{"type", "string"}, {"description", "A place."}}}}},
                             {"required", array{"where"}}}}}}}};
  value called(value content) const {
    return object{{"role", "assistant"},
                  {"content", std::move(content)},
                  {"tool_calls",
                   array{object{{"id", "call12345"},
                                {"type", "function"},
                                {"function", object{{"name", "look"}, {"arguments", object{{"where", "here"}}}}}}}}};
  }
  value answer = object{{"role", "tool"}, {"tool_call_id", "call12345"}, {"name", "look"}, {"content", "seen"}};
};

result<std::string> tried(const chat_template& tmpl, array messages, const value& tools) {
  render_limits limits;
  limits.steps = 400'000;
  limits.output_bytes = 4u << 20;
  limits.memory_bytes = 64u << 20;
  const value context = context_of(std::move(messages), tools, nullptr, true, "<s>", "</s>");
  auto parts = tmpl.render(context, limits, 1'700'000'000);
  if (!parts) return std::unexpected(std::move(parts.error()));
  std::string out;
  for (const auto& p : *parts) out += p.text;
  return out;
}

std::size_t occurrences(std::string_view s, std::string_view word) {
  std::size_t n = 0;
  for (std::size_t at = s.find(word); at != std::string_view::npos; at = s.find(word, at + word.size())) ++n;
  return n;
}

}  // namespace

result<std::vector<rendered_part>> render_chat(const chat_template& tmpl, const value& messages, const value& tools,
                                               const value& arguments, bool add_generation_prompt, std::string_view bos,
                                               std::string_view eos, std::int64_t now) {
  const array* given = messages.as_array();
  if (given == nullptr) return fail("template_error", "the messages are no array");
  array fit;
  for (const value& m : *given) {
    if (m.as_object() == nullptr) return fail("template_error", "a message is no object; send {role, content}");
    auto one = fitted(tmpl, m);
    if (!one) return std::unexpected(std::move(one.error()));
    fit.push_back(std::move(*one));
  }
  std::string content;
  if (!fit.empty() && text_at(fit.back(), "role") == "assistant") {
    content = std::string(final_text(fit.back()));
    if (content.empty()) {
      const value* calls = find(fit.back(), "tool_calls");
      if (calls != nullptr && calls->as_array() != nullptr && !calls->as_array()->empty()) {
        return fail("template_error", "the last message calls tools; append their results before asking for an answer");
      }
      fit.pop_back();
      add_generation_prompt = true;
    } else {
      add_generation_prompt = false;
    }
  }
  const value context = context_of(std::move(fit), tools, arguments, add_generation_prompt, bos, eos);
  auto parts = tmpl.render(context, {}, now);
  if (!parts || content.empty()) return parts;
  return cut_after(std::move(*parts), content);
}

result<void> probe(const chat_template& tmpl) {
  const probe_data data;
  if (const auto plain = tried(tmpl, {data.user}, nullptr); !plain && plain.error().code != "template_raised") {
    return std::unexpected(plain.error());
  }
  for (const auto& out :
       {tried(tmpl, {data.user}, data.tools), tried(tmpl, {data.user, data.called(""), data.answer}, data.tools)}) {
    if (!out && out.error().code == "template_limit") return std::unexpected(out.error());
  }
  return {};
}

template_traits find_traits(const chat_template& tmpl) {
  const probe_data data;
  template_traits traits;
  if (const auto out = tried(tmpl, {data.parts}, nullptr)) {
    bool printed = false;
    for (const std::string_view raw : {"'type': 'text'", "\"type\": \"text\"", "\"type\":\"text\""}) {
      printed = printed || out->find(raw) != std::string::npos;
    }
    traits.content_parts = !printed && out->find(mark) != std::string::npos;
  }
  const auto null = tried(tmpl, {data.user, data.called(nullptr), data.answer}, data.tools);
  const auto empty = tried(tmpl, {data.user, data.called(""), data.answer}, data.tools);
  if (null && empty) traits.null_content = occurrences(*null, "None") <= occurrences(*empty, "None");
  return traits;
}

}  // namespace kvern::chat
