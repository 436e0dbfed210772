#include "ipc/client/client.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/utf8.hpp"
#include "ipc/client/http.hpp"
#include "ipc/client/sse.hpp"

namespace kvern::client {
namespace {

namespace json = boost::json;

result<json::object> parse_object(std::string_view text) {
  boost::system::error_code problem;
  auto parsed = json::parse({text.data(), text.size()}, problem);
  if (problem || !parsed.is_object()) return fail("protocol", "the daemon's answer is not a JSON object");
  return std::move(parsed.as_object());
}

/// The value at `keys`, nested; null when there is none.
const json::value* find(const json::object& root, std::initializer_list<std::string_view> keys) {
  const json::object* here = &root;
  const json::value* found = nullptr;
  for (const auto key : keys) {
    if (here == nullptr) return nullptr;
    found = here->if_contains({key.data(), key.size()});
    if (found == nullptr) return nullptr;
    here = found->if_object();
  }
  return found;
}

std::string string_at(const json::object& root, std::initializer_list<std::string_view> keys) {
  const auto* found = find(root, keys);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string{};
}

double number_at(const json::object& root, std::initializer_list<std::string_view> keys) {
  const auto* found = find(root, keys);
  return found != nullptr && found->is_number() ? found->to_number<double>() : 0.0;
}

std::int64_t integer_at(const json::object& root, std::initializer_list<std::string_view> keys) {
  return static_cast<std::int64_t>(number_at(root, keys));
}

error daemon_error(const json::object& body, int status) {
  auto code = string_at(body, {"error", "code"});
  auto text = string_at(body, {"error", "message"});
  if (code.empty()) code = "protocol";
  if (text.empty()) text = fmt::format("the daemon answered with status {} and no reason", status);
  return {std::move(code), std::move(text)};
}

json::object request_body(const options& how) {
  json::object body{{"stream", true}, {"stream_options", {{"include_usage", true}, {"include_progress", true}}}};
  if (!how.session.empty()) body["session"] = how.session;
  if (how.max_tokens) body["max_tokens"] = *how.max_tokens;
  if (how.temperature) body["temperature"] = *how.temperature;
  if (how.top_p) body["top_p"] = *how.top_p;
  if (how.top_k) body["top_k"] = *how.top_k;
  if (how.min_p) body["min_p"] = *how.min_p;
  if (how.seed) body["seed"] = *how.seed;
  if (!how.stop.empty()) body["stop"] = json::array(how.stop.begin(), how.stop.end());
  return body;
}

/// JSON takes UTF-8 only; a file in another encoding is found out here, where its author can be told where.
result<void> check_utf8(std::string_view text) {
  const auto good = utf8_valid_prefix(text);
  if (good == text.size()) return {};
  return fail("invalid_utf8",
              fmt::format("byte {} of the text is not UTF-8; convert it first, for example with iconv", good));
}

/// Gathers an answer from the events of a stream.
class answer_reader {
 public:
  explicit answer_reader(const observer& watch) : watch_(watch) {}

  void take(std::string_view data) {
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    const auto event = parse_object(data);
    if (!event) {
      problem_ = event.error();
      return;
    }
    if (event->contains("error")) {
      problem_ = daemon_error(*event, 200);
      return;
    }
    take(*event, data);
  }

  result<answer> finish() && {
    if (problem_) return std::unexpected(*problem_);
    if (!done_) return fail("unreachable", "the daemon ended the answer early");
    return std::move(answer_);
  }

 private:
  void take(const json::object& event, std::string_view data) {
    if (find(event, {"kvern", "progress"}) != nullptr && watch_.on_progress) {
      watch_.on_progress(integer_at(event, {"kvern", "progress", "processed"}),
                         integer_at(event, {"kvern", "progress", "total"}));
    }
    if (find(event, {"kvern", "cache"}) != nullptr) {
      answer_.raw = data;
      answer_.cache_reason = string_at(event, {"kvern", "cache", "reason"});
      answer_.prompt_tokens_per_second = number_at(event, {"kvern", "timings", "prompt_tokens_per_second"});
      answer_.generate_tokens_per_second = number_at(event, {"kvern", "timings", "generate_tokens_per_second"});
    }
    if (find(event, {"usage", "prompt_tokens"}) != nullptr) {
      answer_.prompt_tokens = integer_at(event, {"usage", "prompt_tokens"});
      answer_.completion_tokens = integer_at(event, {"usage", "completion_tokens"});
      answer_.cached_tokens = integer_at(event, {"usage", "prompt_tokens_details", "cached_tokens"});
    }
    const auto* choices = event.if_contains("choices");
    if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return;
    const auto* choice = choices->get_array().front().if_object();
    if (choice == nullptr) return;
    if (auto reason = string_at(*choice, {"finish_reason"}); !reason.empty()) answer_.finish_reason = std::move(reason);
    auto text = string_at(*choice, {"delta", "content"});
    if (text.empty()) text = string_at(*choice, {"text"});
    if (text.empty()) return;
    answer_.text += text;
    if (watch_.on_text) watch_.on_text(text);
  }

  const observer& watch_;
  answer answer_;
  std::optional<error> problem_;
  bool done_ = false;
};

}  // namespace

std::string default_socket() {
  if (const char* named = std::getenv("KVERN_SOCKET"); named != nullptr && *named != '\0') return named;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') {
    const auto path = std::filesystem::path(runtime) / "kvern.sock";
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return "/run/kvern/kvern.sock";
}

class client::impl {
 public:
  explicit impl(std::string path) : http_(std::move(path)) {}

  result<answer> stream(std::string_view target, const json::object& body, const observer& watch) {
    answer_reader reader(watch);
    sse_reader events([&](std::string_view data) { reader.take(data); });
    auto got =
        http_.exchange("POST", target, json::serialize(body), [&](std::string_view piece) { events.push(piece); });
    if (!got) return std::unexpected(got.error());
    if (got->status != 200) {
      const auto refusal = parse_object(got->body);
      return std::unexpected(daemon_error(refusal ? *refusal : json::object{}, got->status));
    }
    return std::move(reader).finish();
  }

  result<json::object> call(std::string_view method, std::string_view target, const json::object* body) {
    auto got = http_.exchange(method, target, body != nullptr ? json::serialize(*body) : std::string{});
    if (!got) return std::unexpected(got.error());
    auto parsed = parse_object(got->body);
    if (got->status != 200) return std::unexpected(daemon_error(parsed ? *parsed : json::object{}, got->status));
    return parsed;
  }

  http http_;
};

client::client(std::string socket_path) : impl_(std::make_unique<impl>(std::move(socket_path))) {}
client::~client() = default;

result<answer> client::chat(std::span<const message> messages, const options& how, const observer& watch) {
  auto body = request_body(how);
  json::array list;
  for (const auto& m : messages) {
    if (const auto good = check_utf8(m.content); !good) return std::unexpected(good.error());
  }
  for (const auto& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  body["messages"] = std::move(list);
  return impl_->stream("/v1/chat/completions", body, watch);
}

result<answer> client::complete(std::string_view prompt, const options& how, const observer& watch) {
  if (const auto good = check_utf8(prompt); !good) return std::unexpected(good.error());
  auto body = request_body(how);
  body["prompt"] = json::string_view(prompt.data(), prompt.size());
  return impl_->stream("/v1/completions", body, watch);
}

result<std::vector<token_id>> client::tokenize(std::string_view text, bool add_special, bool parse_special) {
  if (const auto good = check_utf8(text); !good) return std::unexpected(good.error());
  const json::object body{{"text", json::string_view(text.data(), text.size())},
                          {"add_special", add_special},
                          {"parse_special", parse_special}};
  const auto got = impl_->call("POST", "/v1/tokenize", &body);
  if (!got) return std::unexpected(got.error());
  const auto* tokens = got->if_contains("tokens");
  if (tokens == nullptr || !tokens->is_array()) return fail("protocol", "the daemon's answer has no tokens");
  std::vector<token_id> ids;
  for (const auto& token : tokens->get_array()) {
    boost::system::error_code problem;
    ids.push_back(token.to_number<token_id>(problem));
    if (problem) return fail("protocol", "the daemon's answer has a token that is no number");
  }
  return ids;
}

result<std::string> client::detokenize(std::span<const token_id> tokens) {
  const json::object body{{"tokens", json::array(tokens.begin(), tokens.end())}};
  const auto got = impl_->call("POST", "/v1/detokenize", &body);
  if (!got) return std::unexpected(got.error());
  return string_at(*got, {"text"});
}

result<std::string> client::create_session() {
  const json::object body;
  const auto got = impl_->call("POST", "/v1/sessions", &body);
  if (!got) return std::unexpected(got.error());
  auto id = string_at(*got, {"id"});
  if (id.empty()) return fail("protocol", "the daemon's answer has no session id");
  return id;
}

result<void> client::delete_session(std::string_view id) {
  const auto got = impl_->call("DELETE", fmt::format("/v1/sessions/{}", id), nullptr);
  if (!got) return std::unexpected(got.error());
  return {};
}

result<reply> client::request(std::string_view method, std::string_view target, std::string_view body) {
  return impl_->http_.exchange(method, target, body);
}

void client::cancel() noexcept { impl_->http_.cancel(); }

const std::string& client::socket_path() const { return impl_->http_.path(); }

}  // namespace kvern::client
