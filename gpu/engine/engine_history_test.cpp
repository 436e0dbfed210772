// Random histories of an engine on the fake backend, checked against a cold model that computes each turn alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

constexpr token_id end_token = 3;

bool is_poisoned(std::uint64_t state) { return state % 301 == 0; }

struct expectation {
  std::vector<token_id> tokens;
  finish_reason reason = finish_reason::length;
};

// What a turn must answer, from its prompt and parameters alone.
expectation cold(const turn& t, std::int32_t vocab, std::int32_t context) {
  expectation out;
  std::vector<token_id> tokens = t.prompt;
  std::uint64_t state = fake_backend::state_of(tokens);
  sampler chooser(t.sampling, vocab, 0);
  const std::int64_t room = context - static_cast<std::int64_t>(tokens.size());
  const std::int64_t limit = t.max_tokens < 0 ? room : std::min(room, t.max_tokens);
  while (static_cast<std::int64_t>(out.tokens.size()) < limit) {
    if (is_poisoned(state)) {
      out.reason = finish_reason::failed;
      return out;
    }
    const token_id token = chooser.next(fake_backend::logits_of(state, vocab), tokens, -1)->token;
    out.tokens.push_back(token);
    tokens.push_back(token);
    state = fake_backend::next_state(state, token);
    if (token == end_token && !t.ignore_eos) {
      out.reason = finish_reason::stop;
      return out;
    }
  }
  return out;
}

struct live_turn {
  turn request;
  expectation expected;
  std::vector<token_id> seen;
  bool started = false;
  bool cancelled = false;
  std::int64_t processed = 0;
};

class history {
 public:
  history(std::uint64_t seed, fake_backend::shape shape, engine_options options)
      : random_(seed), shape_(shape), h_(shape, with_end(std::move(options))) {
    h_.backend->nan_row = [](const gpu::step&, std::size_t, std::uint64_t state) { return is_poisoned(state); };
    h_.backend->on_forward = [this](const gpu::step& s) -> result<void> {
      check_no_foreign_lines();
      if (fail_forward_) return fail("device_lost", "test");
      if (below(200) == 0 && !live_.empty()) cancel_one();
      EXPECT_LE(s.rows.size(), static_cast<std::size_t>(shape_.max_rows));
      return {};
    };
    const auto tick = h_.backend->on_finalize;
    h_.backend->on_finalize = [this, tick](std::span<const std::int32_t> rows) -> result<void> {
      if (fail_finalize_) return fail("page_out_of_range", "test");
      return tick(rows);
    };
    h_.backend->on_clear = [this](std::span<const page_id>) -> result<void> {
      if (fail_clear_) return fail("device_lost", "test");
      return {};
    };
  }

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      const auto what = below(100);
      if (what < 34)
        submit();
      else if (what < 38)
        cancel_one();
      else if (what < 41)
        release_one();
      else
        step();
      check_invariants();
    }
    for (int i = 0; i < 20000 && !h_.e->idle() && !testing::Test::HasFailure(); ++i) {
      step();
      check_invariants();
    }
    EXPECT_TRUE(h_.e->idle());
    EXPECT_TRUE(live_.empty());
    while (!sessions_.empty() && !testing::Test::HasFailure()) release_one();
    EXPECT_EQ(h_.e->stats().pages_used, 0);
    EXPECT_EQ(h_.e->stats().sequences, 0);
    EXPECT_TRUE(h_.e->tenants().empty());
  }

  engine_stats stats() const { return h_.e->stats(); }
  int finished() const { return finished_; }

 private:
  static engine_options with_end(engine_options o) {
    o.is_end = [](token_id t) { return t == end_token; };
    return o;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  token_id any_token() { return static_cast<token_id>(below(static_cast<std::uint64_t>(shape_.vocab))); }
  std::int32_t context() const { return std::min(shape_.context, shape_.pages * page_lines); }

  void submit() {
    const sequence_id id = below(14);
    turn t;
    t.id = ++last_turn_;
    t.sequence = id;
    t.tenant = fmt::format("tenant{}", id % 3);
    auto& known = sessions_[id];
    t.prompt = known;
    if (below(3) == 0 && !known.empty()) t.prompt.resize(below(known.size()) + 1);
    t.keep = static_cast<std::int64_t>(t.prompt.size());
    if (below(6) == 0 && !t.prompt.empty()) t.prompt[below(t.prompt.size())] = any_token();  // keep may be a lie now
    if (below(8) == 0) t.keep = static_cast<std::int64_t>(below(600));
    const auto more = below(5) == 0 ? below(static_cast<std::uint64_t>(context())) : below(20);
    for (std::uint64_t i = 0; i < more; ++i) t.prompt.push_back(any_token());
    t.max_tokens = below(10) == 0 ? -1 : static_cast<std::int64_t>(below(40));
    t.ignore_eos = below(3) == 0;
    t.sampling.temperature = below(2) == 0 ? 0.0 : 0.9;
    t.sampling.seed = below(1000);
    if (below(3) == 0) {
      t.sampling.repetition_penalty = 1.3;
      t.sampling.frequency_penalty = 0.2;
      t.sampling.penalty_window = static_cast<std::int64_t>(below(40)) - 1;
    }
    const bool too_long = t.prompt.size() >= static_cast<std::size_t>(context());
    const bool busy = std::any_of(live_.begin(), live_.end(), [&](const auto& l) {
      return l.second.request.sequence == id && !l.second.cancelled;
    });
    const auto ok = h_.e->submit(t);
    if (t.prompt.empty()) return expect_error(ok, "invalid_request");
    if (too_long) {
      expect_error(ok, "context_length_exceeded");
      known.clear();
      return;
    }
    if (busy) return expect_error(ok, "busy");
    if (!ok) return expect_error(ok, "queue_full");
    known = t.prompt;
    live_[t.id] = {t, cold(t, shape_.vocab, context()), {}};
  }

  static void expect_error(const result<void>& r, const char* code) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, code);
  }

  void cancel_one() {
    if (live_.empty()) return;
    auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(below(live_.size())));
    it->second.cancelled = true;
    h_.e->cancel(it->first);
  }

  void release_one() {
    if (sessions_.empty()) return;
    const auto it = std::next(sessions_.begin(), static_cast<std::ptrdiff_t>(below(sessions_.size())));
    for (auto& [id, l] : live_)
      if (l.request.sequence == it->first) l.cancelled = true;
    h_.e->release(it->first);
    sessions_.erase(it);
  }

  void step() {
    fail_forward_ = below(400) == 0;
    fail_finalize_ = below(400) == 0;
    fail_clear_ = below(200) == 0;
    const bool work = h_.e->stats().running + h_.e->stats().queued > 0;
    const auto before = h_.e->stats().steps;
    std::vector<turn_output> outputs;
    h_.e->step(outputs);
    EXPECT_EQ(h_.e->stats().steps, before + (work ? 1 : 0)) << "a step without a row";
    for (const turn_output& o : outputs) take(o);
    EXPECT_EQ(h_.backend->staged(), 0U);
  }

  void take(const turn_output& o) {
    const auto it = live_.find(o.id);
    ASSERT_NE(it, live_.end()) << "output of a turn that is over";
    live_turn& l = it->second;
    if (const auto* s = std::get_if<turn_started>(&o.what)) {
      EXPECT_FALSE(l.started);
      l.started = true;
      l.processed = s->reused;
      EXPECT_LE(s->reused,
                std::min<std::int64_t>(l.request.keep, static_cast<std::int64_t>(l.request.prompt.size()) - 1));
    } else if (const auto* p = std::get_if<turn_progress>(&o.what)) {
      EXPECT_TRUE(l.started && l.seen.empty());
      EXPECT_GT(p->processed, l.processed);
      l.processed = p->processed;
    } else if (const auto* t = std::get_if<turn_token>(&o.what)) {
      EXPECT_EQ(l.processed, static_cast<std::int64_t>(l.request.prompt.size()));
      EXPECT_EQ(t->end_of_generation, t->token == end_token);
      l.seen.push_back(t->token);
      ASSERT_LE(l.seen.size(), l.expected.tokens.size());
      ASSERT_EQ(t->token, l.expected.tokens[l.seen.size() - 1]) << "turn " << o.id << ", token " << l.seen.size() - 1;
      const auto session = sessions_.find(l.request.sequence);
      if (session != sessions_.end()) session->second.push_back(t->token);
    } else {
      end(l, std::get<turn_ended>(o.what));
      live_.erase(it);
    }
  }

  void end(const live_turn& l, const turn_ended& e) {
    ++finished_;
    switch (e.reason) {
      case finish_reason::cancelled:
        EXPECT_TRUE(l.cancelled);
        break;
      case finish_reason::failed:
        if (e.why.code == "no_finite_logit") {
          EXPECT_EQ(l.expected.reason, finish_reason::failed);
          EXPECT_EQ(l.seen, l.expected.tokens);
        } else {
          EXPECT_TRUE(fail_forward_ || fail_finalize_ || fail_clear_) << e.why.code;
        }
        break;
      default:
        EXPECT_EQ(e.reason, l.expected.reason);
        EXPECT_EQ(l.seen, l.expected.tokens);
        EXPECT_EQ(e.committed,
                  static_cast<std::int64_t>(l.request.prompt.size() + l.seen.size()) - (l.seen.empty() ? 0 : 1));
    }
  }

  // Pages that another tenant wrote must have been cleared by the time a step uses them.
  void check_no_foreign_lines() {
    for (const auto& [id, s] : h_.e->sequences().all()) {
      for (const page_id p : s.pages) {
        domain_id& owner = page_owner_[p];
        if (owner != 0 && owner != s.tenant->domain) {
          EXPECT_TRUE(h_.backend->is_clear(p));
        }
        owner = s.tenant->domain;
      }
    }
  }

  void check_invariants() {
    std::set<page_id> pages;
    std::size_t held = 0;
    std::map<const tenant_account*, std::pair<std::int32_t, std::int32_t>> of_tenant;
    std::int32_t running = 0;
    for (const auto& [id, s] : h_.e->sequences().all()) {
      held += s.pages.size();
      pages.insert(s.pages.begin(), s.pages.end());
      const auto count = static_cast<std::int32_t>(s.pages.size());
      EXPECT_EQ(count, pages_for(s.committed));
      of_tenant[s.tenant].first += count;
      if (!s.running) of_tenant[s.tenant].second += count;
      EXPECT_EQ(s.in_idle, !s.running && count > 0);
      EXPECT_EQ(s.running, s.turn != nullptr && s.turn->running);
      running += s.running ? 1 : 0;
      if (s.turn == nullptr) {
        EXPECT_EQ(static_cast<std::int32_t>(s.tokens.size()), s.committed);
      } else if (s.turn->started) {
        EXPECT_GT(static_cast<std::int32_t>(s.tokens.size()), s.committed);
      }
      const auto lines = fake_backend::lines_of(std::span(s.tokens).first(static_cast<std::size_t>(s.committed)));
      for (std::size_t i = 0; i < lines.size(); ++i)
        ASSERT_EQ(h_.backend->page(s.pages[i / page_lines])[i % page_lines], lines[i])
            << "sequence " << id << " line " << i;
    }
    EXPECT_EQ(pages.size(), held) << "a page in two places";
    EXPECT_EQ(static_cast<std::int32_t>(held) + h_.e->sequences().free_pages(), shape_.pages);
    for (const auto& [name, t] : h_.e->tenants()) {
      EXPECT_EQ(t.pages, of_tenant[&t].first);
      EXPECT_EQ(t.idle_pages, of_tenant[&t].second);
      EXPECT_EQ(t.waiting,
                std::count_if(t.turns.begin(), t.turns.end(), [](const auto& e) { return !e.second->running; }));
    }
    EXPECT_EQ(h_.e->stats().running, running);
  }

  std::mt19937_64 random_;
  fake_backend::shape shape_;
  harness h_;
  std::map<sequence_id, std::vector<token_id>> sessions_;
  std::map<turn_id, live_turn> live_;
  std::map<page_id, domain_id> page_owner_;
  turn_id last_turn_ = 0;
  int finished_ = 0;
  bool fail_forward_ = false;
  bool fail_finalize_ = false;
  bool fail_clear_ = false;
};

class EngineHistory : public testing::TestWithParam<std::uint64_t> {};

TEST_P(EngineHistory, UnderPagePressure) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  history run(GetParam(), {.vocab = 48, .context = 200, .pages = 13, .max_rows = 60},
              {.max_running = 6, .max_queued_per_tenant = 6, .max_chunk = 50});
  run.run(1500);
  const auto s = run.stats();
  fmt::print("seed {}: {} turns, {} steps, {} preempted, {} pages evicted, {} reused, {} failed\n", GetParam(),
             run.finished(), s.steps, s.preempted_turns, s.evicted_pages, s.reused_tokens, s.failed_turns);
  EXPECT_GT(s.preempted_turns, 0U);
  EXPECT_GT(s.evicted_pages, 0U);
  EXPECT_GT(s.reused_tokens, 0U);
}

TEST_P(EngineHistory, UnderSlotPressure) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  history run(GetParam() + 1000, {.vocab = 48, .context = 300, .pages = 400, .max_rows = 33},
              {.max_running = 3, .max_queued_per_tenant = 3, .max_chunk = 500});
  run.run(1000);
}

TEST_P(EngineHistory, BarelyOneContext) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  history run(GetParam() + 2000, {.vocab = 48, .context = 128, .pages = 4, .max_rows = 16},
              {.max_running = 8, .max_queued_per_tenant = 6, .max_chunk = 16});
  run.run(1000);
}

// KVERN_HISTORIES in the environment: how many seeds, for a longer search.
std::uint64_t histories() {
  const char* wanted = std::getenv("KVERN_HISTORIES");
  return wanted == nullptr ? 8 : std::strtoull(wanted, nullptr, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineHistory, testing::Range(std::uint64_t{1}, histories() + 1));

}  // namespace
}  // namespace kvern::gpu
