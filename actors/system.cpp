#include "actors/system.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>

#include <future>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "actors/courier.hpp"
#include "actors/errors.hpp"
#include "actors/front_desk.hpp"
#include "actors/gpu_worker.hpp"
#include "actors/pool_job.hpp"
#include "actors/prompt_tokens.hpp"
#include "actors/scribe.hpp"
#include "actors/session.hpp"
#include "actors/status_board.hpp"
#include "actors/supervisor.hpp"
#include "actors/unix_time.hpp"

namespace kvern::actors {
namespace {

constexpr std::size_t messages_in_a_row = 32;  ///< of one actor, before the pool turns to another

/// The way to the front desk for handles that may outlive the system. Emptied before the actors go.
class desk_line {
 public:
  explicit desk_line(front_desk_actor desk) : desk_(std::move(desk)) {}

  template <class T>
  void send(T message) {
    const std::shared_lock lock(mutex_);
    if (desk_) caf::anon_send(desk_, std::move(message));
  }

  void cut() {
    const std::lock_guard lock(mutex_);
    desk_ = nullptr;
  }

 private:
  std::shared_mutex mutex_;
  front_desk_actor desk_;
};

class generation_handle final : public generation {
 public:
  generation_handle(std::shared_ptr<desk_line> line, std::shared_ptr<ticket> receipt)
      : line_(std::move(line)), receipt_(std::move(receipt)) {}
  ~generation_handle() override { generation_handle::cancel(); }

  void cancel() override {
    if (!receipt_->cancelled.exchange(true)) line_->send(cancel_request{receipt_});
  }

 private:
  std::shared_ptr<desk_line> line_;
  std::shared_ptr<ticket> receipt_;
};

/// An actor system and its configuration, in the order they must go.
struct runtime {
  explicit runtime(int threads) {
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", static_cast<std::size_t>(threads < 1 ? 1 : threads));
    config.set("scheduler.max-throughput", messages_in_a_row);
    actors.emplace(config);
  }

  caf::actor_system_config config;
  std::optional<caf::actor_system> actors;
};

/// Runtimes with an actor that would not end. Their threads still run, so they can neither be destroyed nor forgotten.
void abandon(std::unique_ptr<runtime> stuck) {
  static auto& abandoned = *new std::vector<std::unique_ptr<runtime>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(stuck));
}

class system_impl final : public system {
 public:
  explicit system_impl(system_options options)
      : tokens_(std::move(options.tokens)),
        template_(std::move(options.chat_template)),
        model_(std::move(options.model)),
        patience_(options.patience),
        board_(std::make_shared<status_board>()),
        file_terms_(std::make_shared<const session_file_terms>(model_.fingerprint, std::move(options.fingerprint),
                                                               options.engine->info())),
        runtime_(std::make_unique<runtime>(options.pool_threads)) {
    facts_.backend = options.engine->info();
    facts_.cache = std::move(options.cache);
    facts_.activations = std::move(options.activations);
    facts_.prompt_lookup = std::move(options.prompt_lookup);
    facts_.threads = options.threads;
    board_->publish(options.engine->stats());

    auto& actors = *runtime_->actors;
    courier_ = actors.spawn<courier>(board_, parcel(doors_.enter()));
    worker_ = actors.spawn<gpu_worker, caf::detached>(parcel(std::move(options.engine)), courier_, board_,
                                                      parcel(doors_.enter()));
    scribe_ = actors.spawn<scribe, caf::detached>(parcel(doors_.enter()));
    const auto context =
        std::make_shared<const session_context>(tokens_, template_, worker_, scribe_, board_, file_terms_);
    desk_ = actors.spawn<front_desk>(context, options.max_sessions_per_tenant, doors_, parcel(doors_.enter()));
    supervisor_ = actors.spawn<supervisor>(worker_, courier_, scribe_, desk_, board_, parcel(doors_.enter()));
    line_ = std::make_shared<desk_line>(desk_);
  }

  ~system_impl() override {
    shut_down(patience_);
    line_->cut();
    // The supervisor first: the others' end is no failure now.
    caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(desk_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(scribe_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(worker_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(courier_, caf::exit_reason::user_shutdown);
    supervisor_ = nullptr;
    desk_ = nullptr;
    scribe_ = nullptr;
    worker_ = nullptr;
    courier_ = nullptr;
    if (!doors_.wait_empty(patience_)) abandon(std::move(runtime_));
  }

  std::unique_ptr<generation> generate(const peer& who, generation_request request,
                                       std::shared_ptr<generation_sink> sink) override {
    board_->requests.fetch_add(1);
    auto receipt = std::make_shared<ticket>();
    pending_request pending{who.tenant(), std::move(request), event_stream(std::move(sink), board_->refused), receipt};
    line_->send(start_turn{parcel(std::move(pending))});
    return std::make_unique<generation_handle>(line_, std::move(receipt));
  }

  void create_session(const peer& who, session_settings settings, reply<session_info> done) override {
    line_->send(actors::create_session{who.tenant(), settings, parcel(port(std::move(done)))});
  }
  void list_sessions(const peer& who, reply<std::vector<session_info>> done) override {
    line_->send(actors::list_sessions{who.tenant(), parcel(port(std::move(done)))});
  }
  void get_session(const peer& who, std::string id, reply<session_info> done) override {
    command(session_verb::describe, who, std::move(id), std::move(done));
  }
  void delete_session(const peer& who, std::string id, reply<session_info> done) override {
    command(session_verb::end, who, std::move(id), std::move(done));
  }
  void cancel_session(const peer& who, std::string id, reply<session_info> done) override {
    command(session_verb::cancel, who, std::move(id), std::move(done));
  }

  void fork_session(const peer& who, std::string id, std::optional<std::int64_t> count,
                    reply<session_info> done) override {
    line_->send(named<actors::fork_session>{who.tenant(), std::move(id), {count, parcel(port(std::move(done)))}});
  }
  void rewind_session(const peer& who, std::string id, std::int64_t count, reply<rewound_session> done) override {
    line_->send(named<actors::rewind_session>{who.tenant(), std::move(id), {count, parcel(port(std::move(done)))}});
  }
  void export_session(const peer& who, std::string id, reply<std::string> done) override {
    line_->send(named<actors::export_session>{who.tenant(), std::move(id), {parcel(port(std::move(done)))}});
  }
  void explain(const peer& who, std::string id, kvern::prompt text, reply<explanation> done) override {
    line_->send(named<explain_prompt>{who.tenant(), std::move(id), {std::move(text), parcel(port(std::move(done)))}});
  }

  void import_session(const peer& who, std::string file, reply<session_info> done) override {
    auto run = [line = line_, terms = file_terms_, tenant = who.tenant(), file = std::move(file),
                to = port(std::move(done))](std::optional<error> refused) mutable {
      if (refused) return to.answer(std::unexpected(std::move(*refused)));
      try {
        auto read = session_file::read(std::move(file), *terms);
        if (!read) return to.answer(std::unexpected(std::move(read.error())));
        line->send(actors::import_session{std::move(tenant), parcel(std::move(*read)), parcel(std::move(to))});
      } catch (...) {
        to.answer(std::unexpected(internal_error()));
      }
    };
    caf::anon_send(scribe_, long_job{who.tenant(), parcel(pool_job::job(std::move(run)))});
  }
  std::uint64_t max_import_bytes() const override { return max_session_file_bytes(file_terms_->info); }

  void tokenize(text_prompt text, reply<std::vector<token_id>> done) override {
    const auto weight = text.text.size();
    in_background<std::vector<token_id>>(weight, std::move(done), [tokens = tokens_, text = std::move(text)] {
      return result<std::vector<token_id>>(tokenize_text(text, *tokens));
    });
  }
  void detokenize(std::vector<token_id> ids, reply<std::string> done) override {
    const auto weight = ids.size();
    in_background<std::string>(weight, std::move(done),
                               [tokens = tokens_, ids = std::move(ids)] { return actors::detokenize(ids, *tokens); });
  }
  void render(chat_prompt chat, reply<rendered> done) override {
    const prompt whole = std::move(chat);
    const auto weight = prompt_weight(whole);
    in_background<rendered>(weight, std::move(done), [tokens = tokens_, source = template_, whole] {
      return render_chat_prompt(std::get<chat_prompt>(whole), *tokens, source.get(), unix_now());
    });
  }

  std::string token_bytes(token_id id) const override { return tokens_->piece(id, true); }

  const model_info& model() const override { return model_; }

  service_stats stats() const override {
    auto out = facts_;
    out.engine = board_->engine();
    out.sessions = board_->sessions.load();
    out.requests = board_->requests.load();
    out.refused = board_->refused->load();
    out.heartbeat_age_seconds = board_->heartbeat_age_seconds();
    out.worker_alive = board_->worker_alive();
    out.uptime_seconds = board_->uptime_seconds();
    return out;
  }

  void shut_down(std::chrono::milliseconds limit) override {
    std::promise<void> done;
    const auto idle = done.get_future();
    line_->send(stop_service{parcel(std::move(done))});
    idle.wait_for(limit);
  }

 private:
  void command(session_verb verb, const peer& who, std::string id, reply<session_info> done) {
    line_->send(named<session_command>{who.tenant(), std::move(id), {verb, parcel(port(std::move(done)))}});
  }

  /// Does `work` away from the caller's thread: in the pool, or by the scribe when it is long.
  template <class T, class F>
  void in_background(std::size_t weight, reply<T> done, F work) {
    auto run = [to = port(std::move(done)), work = std::move(work)](std::optional<error> refused) mutable {
      if (refused) return to.answer(std::unexpected(std::move(*refused)));
      try {
        to.answer(work());
      } catch (...) {
        to.answer(std::unexpected(internal_error()));
      }
    };
    auto job = parcel(pool_job::job(std::move(run)));
    if (weight > session::long_prompt) return caf::anon_send(scribe_, long_job{"", std::move(job)});
    runtime_->actors->spawn<pool_job>(std::move(job), parcel(doors_.enter()));
  }

  std::shared_ptr<const tokenizer> tokens_;
  std::shared_ptr<const chat::chat_template> template_;
  const model_info model_;
  const std::chrono::milliseconds patience_;
  service_stats facts_;  ///< those that do not change
  std::shared_ptr<status_board> board_;
  gate doors_;
  const std::shared_ptr<const session_file_terms> file_terms_;
  std::unique_ptr<runtime> runtime_;
  courier_actor courier_;
  worker_actor worker_;
  scribe_actor scribe_;
  front_desk_actor desk_;
  caf::actor supervisor_;
  std::shared_ptr<desk_line> line_;
};

}  // namespace

std::shared_ptr<system> system::start(system_options options) {
  return std::make_shared<system_impl>(std::move(options));
}

}  // namespace kvern::actors
