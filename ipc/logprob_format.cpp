#include "ipc/logprob_format.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cmath>

#include "base/utf8.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

/// JSON has no infinity; OpenAI writes what is impossible like this.
double shown(double logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

json::object entry(std::string_view bytes, double logprob) {
  json::object o;
  o["token"] = utf8_repaired(bytes);
  o["logprob"] = shown(logprob);
  json::array& list = (o["bytes"] = json::array()).get_array();
  list.reserve(bytes.size());
  for (const char c : bytes) list.emplace_back(static_cast<unsigned char>(c));
  return o;
}

/// Tokens that are no whole characters are told apart by their bytes, as OpenAI's completions write them.
std::string key_of(std::string_view bytes) {
  if (utf8_valid(bytes)) return std::string(bytes);
  std::string key = "bytes:";
  for (const char c : bytes) key += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return key;
}

}  // namespace

json::object chat_logprobs(std::span<const generated_token> tokens, const service& vocabulary) {
  json::array content;
  content.reserve(tokens.size());
  for (const generated_token& t : tokens) {
    json::object o = entry(vocabulary.token_bytes(t.token), t.logprob.logprob);
    json::array top;
    top.reserve(t.logprob.alternatives.size());
    for (const auto& [id, logprob] : t.logprob.alternatives) {
      top.push_back(entry(vocabulary.token_bytes(id), logprob));
    }
    o["top_logprobs"] = std::move(top);
    content.push_back(std::move(o));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json::object text_logprobs(std::span<const generated_token> tokens, const service& vocabulary, std::int64_t& offset) {
  json::array texts;
  json::array logprobs;
  json::array tops;
  json::array offsets;
  for (const generated_token& t : tokens) {
    const std::string key = key_of(vocabulary.token_bytes(t.token));
    json::object top;
    for (const auto& [id, logprob] : t.logprob.alternatives) {
      // Of two tokens with the same bytes the likelier one, which comes first, is shown.
      top.emplace(key_of(vocabulary.token_bytes(id)), shown(logprob));
    }
    top.emplace(key, shown(t.logprob.logprob));
    texts.emplace_back(key);
    logprobs.emplace_back(shown(t.logprob.logprob));
    tops.push_back(std::move(top));
    offsets.emplace_back(offset);
    offset += static_cast<std::int64_t>(utf8_length(t.bytes));
  }
  json::object o;
  o["tokens"] = std::move(texts);
  o["token_logprobs"] = std::move(logprobs);
  o["top_logprobs"] = std::move(tops);
  o["text_offset"] = std::move(offsets);
  return o;
}

}  // namespace kvern::ipc
