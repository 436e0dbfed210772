#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "gpu/engine/engine.hpp"
#include "model/chat/value.hpp"
#include "model/sampler/sampling_params.hpp"

/// What the daemon offers to a protocol: native requests in, events out. No JSON, no socket, no actor in sight.
namespace kvern {

/// Who asks: the kernel's word (SO_PEERCRED), never the caller's.
struct peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;

  /// The tenant this peer acts for, e.g. "uid:1000".
  std::string tenant() const { return "uid:" + std::to_string(uid); }
};

/// A prompt as text. Special tokens written in it are recognised only with `parse_special`.
struct text_prompt {
  std::string text;
  bool add_special = true;
  bool parse_special = false;
};

struct chat_prompt {
  chat::value messages;   ///< array of objects, as the template expects them
  chat::value tools;      ///< array or null
  chat::value arguments;  ///< object: further template variables (chat_template_kwargs); or null
  bool add_generation_prompt = true;
};

/// A prompt: text, token ids, or messages for the model's chat template.
using prompt = std::variant<text_prompt, std::vector<token_id>, chat_prompt>;

struct generation_request {
  std::string session;  ///< id of a session of the peer's tenant; empty: none, nothing is kept afterwards
  kvern::prompt prompt;
  sampling_params sampling;
  std::optional<std::int64_t> max_tokens;  ///< absent: until the context is full
  std::vector<std::string> stop;           ///< the text before the first match is the answer
  bool ignore_eos = false;
  std::int32_t logprobs = -1;  ///< alternatives for each token, 0 to 20; -1: no log-probabilities

  std::optional<gpu::overflow_policy> overflow;  ///< absent: the session's
  std::optional<std::int64_t> keep;              ///< lines, with `rotate`; absent: the session's
  std::int64_t exclude_tail = 0;  ///< last tokens of the prompt that leave no line behind, nor does the answer then
  std::optional<bool>
      prompt_lookup;  ///< whether to guess tokens from what was said before; absent: the daemon's choice
};

/// What a session does unless a request says otherwise.
struct session_settings {
  gpu::overflow_policy overflow = gpu::overflow_policy::error;
  std::int64_t keep = 0;  ///< lines that stay; with `rotate`

  friend bool operator==(const session_settings&, const session_settings&) = default;
};

/// Why so much, and no more, of a session's cache served a prompt.
enum class cache_reason { empty, extends, same, shorter, mismatch };
constexpr std::string_view to_string(cache_reason reason) {
  switch (reason) {
    case cache_reason::empty:
      return "empty";
    case cache_reason::extends:
      return "extends";
    case cache_reason::same:
      return "same";
    case cache_reason::shorter:
      return "shorter";
    case cache_reason::mismatch:
      return "mismatch";
  }
  return "unknown";
}

constexpr std::string_view to_string(gpu::overflow_policy policy) {
  switch (policy) {
    case gpu::overflow_policy::error:
      return "error";
    case gpu::overflow_policy::stop:
      return "stop";
    case gpu::overflow_policy::rotate:
      return "rotate";
  }
  return "unknown";
}

struct cache_report {
  std::int64_t reused = 0;    ///< prompt tokens whose lines were there
  std::int64_t computed = 0;  ///< prompt tokens that had to be run
  cache_reason reason = cache_reason::empty;
  std::optional<std::int64_t> first_divergence;  ///< position; with `mismatch`
  std::int64_t shared = 0;                       ///< of `reused`, from pages that other sessions of the user computed
};

/// That the context was full, and what was done about it: `stop` ended the answer, `rotate` dropped lines.
struct overflow_report {
  gpu::overflow_policy policy = gpu::overflow_policy::stop;
  std::int64_t keep = 0;       ///< lines that stay; with `rotate`
  std::int64_t forgotten = 0;  ///< lines dropped so far; with `rotate`
};

struct generated_token {
  token_id token = 0;
  std::string bytes;      ///< the token's own bytes (may be part of a UTF-8 character)
  token_logprob logprob;  ///< filled when asked for
};

/// The turn began: its prompt was tokenized and validated against the cache.
struct started_event {
  std::vector<token_id> prompt;
  cache_report cache;
};

struct progress_event {
  std::int64_t processed = 0;  ///< prompt tokens, the reused ones included
  std::int64_t total = 0;
};

/// Valid UTF-8 text that is certain (no possible start of a stop string), with the tokens that completed it.
struct text_event {
  std::string text;
  std::vector<generated_token> tokens;
};

/// The last event of a turn that ran. `why` is set with finish_reason::failed.
struct end_event {
  gpu::finish_reason reason = gpu::finish_reason::stop;
  error why;
  std::string stop_string;  ///< the stop string that was met, if one was
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t drafted_tokens = 0;   ///< guessed by prompt lookup
  std::int64_t accepted_tokens = 0;  ///< of them, among the completion's
  std::optional<overflow_report> overflow;
  double queued_ms = 0;
  double prompt_ms = 0;
  double generate_ms = 0;
};

/// The request was refused before anything ran.
struct refused_event {
  error why;
};

/// In this order: refused | started, progress*, text*, end.
using generation_event = std::variant<refused_event, started_event, progress_event, text_event, end_event>;

/// Takes the events of one request, one at a time, from threads of the service's choice. Must not block.
class generation_sink {
 public:
  virtual ~generation_sink() = default;
  virtual void on_event(generation_event event) = 0;
};

/// A running request. Destroying it cancels; after cancel() an end_event with finish_reason::cancelled still comes.
class generation {
 public:
  virtual ~generation() = default;
  virtual void cancel() = 0;
};

struct session_info {
  std::string id;
  std::int64_t tokens = 0;     ///< of its history
  std::int64_t committed = 0;  ///< of them with lines in the cache
  std::int64_t turns = 0;
  bool running = false;
  std::int64_t created = 0;    ///< Unix seconds
  std::int64_t last_used = 0;  ///< Unix seconds
  std::optional<cache_report> last_validation;
  session_settings settings;
  std::int64_t forgotten = 0;                ///< lines that rotation has dropped
  std::optional<gpu::sequence_info> cached;  ///< as the worker sees it; only where it was asked
};

/// A session that was cut back. `reusable` of its tokens need not be computed by a prompt that continues them.
struct rewound_session {
  session_info session;
  std::int64_t reusable = 0;
};

/// Where a prompt parts from a session's tokens, with the text of a few tokens around it.
struct divergence {
  std::int64_t position = 0;
  token_id cached_token = 0;
  token_id prompt_token = 0;
  std::string cached_text;
  std::string prompt_text;
};

/// What a prompt would find in a session, and why no more.
struct explanation {
  cache_report cache;
  std::optional<divergence> first_divergence;  ///< with `mismatch`
  std::optional<std::int64_t> message;         ///< index of the first message that changed, where one did
};

struct model_info {
  std::string id;  ///< name that requests and /v1/models use
  std::string architecture;
  std::string description;   ///< general.name of the file
  std::string file_type;     ///< e.g. "Q4_1"
  std::string fingerprint;   ///< of the file's content, hexadecimal
  std::int64_t created = 0;  ///< Unix seconds
  std::int64_t context = 0;  ///< positions a session may have here
  std::int64_t trained_context = 0;
  std::int64_t vocab = 0;
  std::uint64_t parameters = 0;
  std::uint64_t file_bytes = 0;
  bool has_chat_template = false;
};

/// How the cache was set up, in the words of the configuration.
struct cache_setup {
  std::string layout;
  std::string update;
  bool stacked = true;
  bool stage_stacked = true;
  std::string kv_type;
  std::string int8_scale;  ///< empty unless kv_type is int8
  std::int32_t shards = 1;
};

struct service_stats {
  gpu::engine_stats engine;
  gpu::backend_info backend;
  std::int64_t sessions = 0;
  std::int64_t requests = 0;  ///< since start
  std::int64_t refused = 0;
  double heartbeat_age_seconds = 0;  ///< since the worker last showed life
  bool worker_alive = true;
  double uptime_seconds = 0;
  cache_setup cache;
  std::string activations;
  std::string prompt_lookup;
  std::int32_t threads = 0;
};

template <class T>
using reply = std::move_only_function<void(result<T>)>;

/// The daemon's work. All functions return at once and may be called from any thread; replies come on threads of the
/// service's choice, exactly once. Sessions of another tenant are `session_not_found`.
///
/// Error codes: `session_not_found`, `session_busy`, `context_length_exceeded`, `queue_full`, `invalid_request`,
/// `template_error` (the template itself refused, with its message), `no_chat_template`, `shutting_down`,
/// `worker_failed`, `too_many_sessions` (the user has as many as allowed, and all of them are in use; else the least
/// recently used one ends), `out_of_pages`, `server_busy` (an export lost lines while it was made),
/// `invalid_session_file`, `session_file_mismatch` (of another model or type of cache).
class service {
 public:
  virtual ~service() = default;

  virtual std::unique_ptr<generation> generate(const peer& who, generation_request request,
                                               std::shared_ptr<generation_sink> sink) = 0;

  virtual void create_session(const peer& who, session_settings settings, reply<session_info> done) = 0;
  virtual void list_sessions(const peer& who, reply<std::vector<session_info>> done) = 0;
  /// Also asks the worker what it holds of the session.
  virtual void get_session(const peer& who, std::string id, reply<session_info> done) = 0;
  virtual void delete_session(const peer& who, std::string id, reply<session_info> done) = 0;
  /// Ends the running turn of a session, if there is one.
  virtual void cancel_session(const peer& who, std::string id, reply<session_info> done) = 0;

  /// Makes a session with the first `tokens` (absent: all) tokens of another and their lines. That one may be running:
  /// then what its client has been sent counts.
  virtual void fork_session(const peer& who, std::string id, std::optional<std::int64_t> tokens,
                            reply<session_info> done) = 0;
  /// Cuts an idle session to its first `tokens` tokens.
  virtual void rewind_session(const peer& who, std::string id, std::int64_t tokens, reply<rewound_session> done) = 0;
  /// An idle session with its lines, as a file (actors/session_file.hpp).
  virtual void export_session(const peer& who, std::string id, reply<std::string> done) = 0;
  /// Makes a session of such a file, which is checked whole before anything is done with it.
  virtual void import_session(const peer& who, std::string file, reply<session_info> done) = 0;
  /// The most bytes that a file to import can have.
  virtual std::uint64_t max_import_bytes() const = 0;
  /// What `prompt` would find in a session now. Changes nothing.
  virtual void explain(const peer& who, std::string id, kvern::prompt prompt, reply<explanation> done) = 0;

  virtual void tokenize(text_prompt text, reply<std::vector<token_id>> done) = 0;
  virtual void detokenize(std::vector<token_id> tokens, reply<std::string> done) = 0;
  struct rendered {
    std::string text;
    std::vector<token_id> tokens;
  };
  virtual void render(chat_prompt chat, reply<rendered> done) = 0;

  /// A token's own bytes in the middle of a text, which may be part of a UTF-8 character; of a control token its text.
  /// Empty for ids out of range. The vocabulary never changes: answers at once, on any thread.
  virtual std::string token_bytes(token_id id) const = 0;

  virtual const model_info& model() const = 0;
  /// Never waits for the worker.
  virtual service_stats stats() const = 0;
};

}  // namespace kvern
