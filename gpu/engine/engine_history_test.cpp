// Random histories of an engine on the fake backend, checked against a cold model that computes each turn alone.
#include "gpu/engine/engine_history.hpp"

#include <cstdlib>

namespace kvern::gpu {

// What a turn must answer, from its prompt and parameters alone.
history::expectation history::cold(const turn& t) const {
  expectation out;
  std::vector<token_id> tokens = t.prompt;
  fake_backend::alone state(shape_.windows, rotation_of(t));
  for (const token_id token : tokens) state.append(token);
  sampler chooser(t.sampling, shape_.vocab, 0);
  const std::int64_t room = context() - static_cast<std::int64_t>(tokens.size());
  std::int64_t limit = t.max_tokens < 0 ? room : std::min(room, t.max_tokens);
  if (t.overflow == overflow_policy::rotate) limit = t.max_tokens < 0 ? context() : t.max_tokens;
  while (static_cast<std::int64_t>(out.tokens.size()) < limit) {
    if (is_poisoned(state.state())) {
      out.reason = finish_reason::failed;
      return out;
    }
    const token_id token = chooser.next(fake_backend::logits_of(state.state(), shape_.vocab), tokens, -1)->token;
    out.tokens.push_back(token);
    tokens.push_back(token);
    state.append(token);
    if (token == end_token && !t.ignore_eos) {
      out.reason = finish_reason::stop;
      return out;
    }
  }
  return out;
}

void history::run(int operations) {
  for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
    const auto what = below(100);
    if (what < 30)
      submit();
    else if (what < 34)
      cancel_one();
    else if (what < 37)
      release_one();
    else if (what < 40)
      fork_one();
    else if (what < 42)
      rewind_one();
    else if (what < 43)
      copy_one();
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
  EXPECT_EQ(h_.e->stats().sequences, 0);
  check_invariants();
}

turn history::make_turn(sequence_id id) {
  turn t;
  t.id = ++last_turn_;
  t.sequence = id;
  t.tenant = tenant_of(id);
  const auto& known = sessions_[id];
  t.prompt = known;
  if (below(3) == 0 && !known.empty()) t.prompt.resize(below(known.size()) + 1);
  // Some begin as others do, so that there is something to share.
  if (known.empty() && below(2) == 0)
    for (std::uint64_t i = 0; i < 70 + below(3); ++i) t.prompt.push_back(static_cast<token_id>(i % 47));
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
  const auto overflow = below(6);
  if (overflow < 2) t.overflow = overflow_policy::stop;
  if (overflow < 1 || (may_rotate() && id % 4 == 1)) {
    t.overflow = overflow_policy::rotate;
    t.rotate_keep = static_cast<std::int64_t>(id % 3 * 17);
  }
  if (t.prompt.size() > 800) t.prompt.resize(800);
  if (below(6) == 0) t.exclude_tail = static_cast<std::int64_t>(below(40));
  return t;
}

void history::submit() {
  const sequence_id id = below(4) == 0 && last_fork_ > 100 ? 101 + below(last_fork_ - 100) : below(14);
  if (id > 100 && !sessions_.contains(id)) return;
  const turn t = make_turn(id);
  const std::size_t size = t.prompt.size();
  const bool rotates = t.overflow == overflow_policy::rotate;
  const bool too_long =
      !rotates &&
      (size >= static_cast<std::size_t>(context()) ||
       (t.overflow == overflow_policy::error && static_cast<std::int64_t>(size) + t.max_tokens > context()));
  const bool cannot =
      rotates && (!may_rotate() || t.rotate_keep > (context() / page_lines - 1) * std::int64_t{page_lines});
  const bool busy = std::any_of(live_.begin(), live_.end(),
                                [&](const auto& l) { return l.second.request.sequence == id && !l.second.cancelled; });
  const auto ok = h_.e->submit(t);
  if (size == 0) return expect_error(ok, "invalid_request");
  if (too_long) {
    expect_error(ok, "context_length_exceeded");
    if (!busy) sessions_[id].clear();
    return;
  }
  if (cannot) return expect_error(ok, "invalid_request");
  if (busy) return expect_error(ok, "busy");
  if (!ok) return expect_error(ok, "queue_full");
  sessions_[id] = t.prompt;
  live_[t.id] = {t, cold(t), {}};
}

void history::cancel_one() {
  if (live_.empty()) return;
  const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(below(live_.size())));
  it->second.cancelled = true;
  const auto sent = static_cast<std::int64_t>(it->second.request.prompt.size() + it->second.seen.size());
  h_.e->cancel(it->first, below(2) == 0 ? -1 : sent - static_cast<std::int64_t>(below(3)));
}

sequence_id history::any_sequence() {
  return std::next(sessions_.begin(), static_cast<std::ptrdiff_t>(below(sessions_.size())))->first;
}

void history::release_one() {
  if (sessions_.empty()) return;
  const sequence_id id = any_sequence();
  for (auto& [turn, l] : live_)
    if (l.request.sequence == id) l.cancelled = true;
  h_.e->release(id);
  sessions_.erase(id);
  alone_.erase(id);
}

void history::fork_one() {
  if (sessions_.empty()) return;
  const sequence_id from = any_sequence();
  const sequence* parent = std::as_const(*h_.e).sequences().find(from);
  // A tenant's sequences have ids that agree modulo 3.
  const sequence_id to = last_fork_ + 1 + (from + 3000 - last_fork_ - 1) % 3;
  if (parent == nullptr) return expect_error(h_.e->fork(from, to, 0), "not_found");
  const auto length =
      static_cast<std::int64_t>(below(3) == 0 ? below(parent->tokens.size() + 1) : parent->tokens.size());
  const std::vector<token_id> tokens(parent->tokens.begin(), parent->tokens.begin() + length);
  const std::int32_t used = h_.e->stats().pages_used;
  ASSERT_TRUE(h_.e->fork(from, to, length));
  EXPECT_EQ(h_.e->stats().pages_used, used) << "a fork copied pages";
  sessions_[to] = tokens;
  last_fork_ = to;
  ++forks_;
}

void history::rewind_one() {
  if (sessions_.empty()) return;
  const sequence_id id = any_sequence();
  const sequence* s = std::as_const(*h_.e).sequences().find(id);
  if (s == nullptr) return;
  const auto length = static_cast<std::int64_t>(below(s->tokens.size() + 1));
  const bool busy = s->turn != nullptr;
  const auto reusable = h_.e->rewind(id, length);
  ASSERT_EQ(reusable.has_value(), !busy);
  if (busy) return;
  EXPECT_LE(*reusable, length);
  sessions_[id].resize(std::min(sessions_[id].size(), static_cast<std::size_t>(length)));
  // Told honestly: a prompt that goes on from there finds as much.
  std::vector<token_id> prompt = s->tokens;
  prompt.push_back(1);
  if (s->rotate == rotation{}) {
    EXPECT_EQ(h_.e->estimate(tenant_of(id), id, prompt).reused, *reusable);
  }
}

// Export and import into a new sequence.
void history::copy_one() {
  if (sessions_.empty()) return;
  const sequence_id from = any_sequence();
  const auto state = h_.e->state_of(from);
  if (!state) return;
  std::vector<block_lines> blocks;
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(shape_.windows.size()); ++t)
    for (std::int32_t b = 0; b < blocks_for(state->committed); ++b)
      if (auto lines = h_.e->read_block(from, t, b)) blocks.push_back(std::move(*lines));
  std::shuffle(blocks.begin(), blocks.end(), random_);
  if (below(3) == 0 && !blocks.empty()) blocks.pop_back();
  const sequence_id to = last_fork_ + 1 + (from + 3000 - last_fork_ - 1) % 3;
  ASSERT_TRUE(h_.e->begin_import(to, tenant_of(to), *state));
  h_.backend->on_write = [&](page_id p) { page_owner_[p] = h_.e->sequences().find(to)->tenant->domain; };
  for (const block_lines& b : blocks) {
    const auto ok = h_.e->import_block(to, b);
    if (ok) continue;
    EXPECT_TRUE(ok.error().code == "out_of_pages" || (ok.error().code == "device_lost" && fail_clear_))
        << ok.error().code;
    h_.e->release(to);
    return;
  }
  ASSERT_TRUE(h_.e->end_import(to));
  sessions_[to] = state->tokens;
  last_fork_ = to;
}

void history::step() {
  fail_forward_ = below(400) == 0;
  fail_finalize_ = below(400) == 0;
  fail_clear_ = below(200) == 0;
  const bool work = h_.e->stats().running + h_.e->stats().queued > 0;
  const auto before = h_.e->stats().steps;
  std::vector<turn_output> outputs;
  h_.e->step(outputs);
  EXPECT_EQ(h_.e->stats().steps, before + (work ? 1 : 0)) << "a step without a row";
  for (const turn_output& o : outputs) take(o);
  if (!fail_forward_) {
    EXPECT_EQ(h_.backend->staged(), 0U);
  }
}

void history::take(const turn_output& o) {
  const auto it = live_.find(o.id);
  ASSERT_NE(it, live_.end()) << "output of a turn that is over";
  live_turn& l = it->second;
  if (const auto* s = std::get_if<turn_started>(&o.what)) {
    EXPECT_FALSE(l.started);
    l.started = true;
    l.processed = s->reused;
    EXPECT_LE(s->shared, s->reused);
    EXPECT_LE(s->reused, static_cast<std::int64_t>(l.request.prompt.size()) - 1);
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

void history::end(const live_turn& l, const turn_ended& e) {
  ++finished_;
  rotated_ += e.forgotten > 0 ? 1 : 0;
  const auto prompt = static_cast<std::int64_t>(l.request.prompt.size());
  if (l.started && l.request.exclude_tail > 0) {
    EXPECT_LE(e.committed, std::max<std::int64_t>(0, prompt - l.request.exclude_tail));
  }
  switch (e.reason) {
    case finish_reason::cancelled:
      EXPECT_TRUE(l.cancelled);
      break;
    case finish_reason::failed:
      if (e.why.code == "no_finite_logit") {
        EXPECT_EQ(l.expected.reason, finish_reason::failed);
        EXPECT_EQ(l.seen, l.expected.tokens);
      } else {
        EXPECT_TRUE(fail_forward_ || fail_finalize_ || fail_clear_) << e.why.code << ": " << e.why.message;
      }
      break;
    default:
      EXPECT_EQ(e.reason, l.expected.reason);
      EXPECT_EQ(l.seen, l.expected.tokens);
      if (l.request.exclude_tail > 0) break;
      EXPECT_EQ(e.committed, prompt + static_cast<std::int64_t>(l.seen.size()) - (l.seen.empty() ? 0 : 1));
  }
}

// Pages that another tenant wrote must have been cleared by the time a step uses them.
void history::check_no_foreign_lines(const gpu::step& s) {
  for (const auto& [id, q] : h_.e->sequences().all()) {
    if (!q.running) continue;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(shape_.windows.size()); ++t)
      for (std::int32_t b = 0; b < q.blocks; ++b) {
        const page_id p = h_.e->sequences().page(q, t, b);
        if (p == no_page) continue;
        domain_id& owner = page_owner_[p];
        // A page with lines of this sequence was copied or computed for it.
        if (owner != 0 && owner != q.tenant->domain && b * page_lines >= q.committed) {
          EXPECT_TRUE(h_.backend->is_clear(p));
        }
        owner = q.tenant->domain;
      }
  }
  EXPECT_FALSE(s.rows.empty());
}

void history::check_lines(sequence_id id, const sequence& s) {
  const auto committed = static_cast<std::size_t>(s.committed);
  auto it = alone_.find(id);
  const bool grows = it != alone_.end() && it->second.rotate == s.rotate && it->second.tokens.size() <= committed &&
                     std::equal(it->second.tokens.begin(), it->second.tokens.end(), s.tokens.begin());
  if (!grows) {
    alone_.erase(id);
    it = alone_.try_emplace(id, lines_alone{{}, s.rotate, fake_backend::alone(shape_.windows, s.rotate)}).first;
  }
  lines_alone& a = it->second;
  while (a.tokens.size() < committed) {
    a.tokens.push_back(s.tokens[a.tokens.size()]);
    a.cold.append(a.tokens.back());
  }
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(shape_.windows.size()); ++t)
    for (std::int32_t b = 0; b < std::min(s.blocks, blocks_for(s.committed)); ++b) {
      const page_id p = h_.e->sequences().page(s, t, b);
      if (p == no_page) continue;
      for (std::int32_t i = 0; i < std::min(page_lines, s.committed - b * page_lines); ++i)
        ASSERT_EQ(h_.backend->page(p)[static_cast<std::size_t>(i)],
                  a.cold.lines()[static_cast<std::size_t>(t)][static_cast<std::size_t>(b * page_lines + i)])
            << "sequence " << id << " table " << t << " line " << b * page_lines + i << " in page " << p;
    }
}

void history::check_invariants() {
  const sequence_table& table = h_.e->sequences();
  const frame_pool& pool = table.pool();
  EXPECT_TRUE(pool.consistent());
  std::map<frame_id, std::pair<std::int32_t, std::int32_t>> counted;  // holders, users
  std::map<frame_id, const tenant_account*> tenant;
  std::int32_t running = 0;
  for (const auto& [id, s] : table.all()) {
    std::int32_t in_use = 0;
    for (const held_frame& f : s.frames) {
      if (!pool.valid(f.claim)) {
        EXPECT_FALSE(f.used);
        continue;
      }
      ++counted[f.claim.frame].first;
      counted[f.claim.frame].second += f.used ? 1 : 0;
      in_use += f.used ? 1 : 0;
      const auto [owner, first] = tenant.emplace(f.claim.frame, s.tenant);
      EXPECT_EQ(owner->second, s.tenant) << "a page of two tenants";
    }
    EXPECT_EQ(s.in_use, in_use);
    EXPECT_EQ(s.running, s.turn != nullptr && s.turn->running);
    running += s.running ? 1 : 0;
    if (!s.running) {
      EXPECT_EQ(in_use, 0);
    }
    if (s.turn != nullptr && s.turn->started) {
      EXPECT_GT(static_cast<std::int32_t>(s.tokens.size()), s.committed);
    }
    for (std::int32_t t = 0; s.running && t < table.geometry().tables(); ++t)
      for_visible_blocks(s.rotate, table.geometry().window(t), s.committed, [&](std::int32_t block, std::int32_t end) {
        for (; block < end; ++block)
          EXPECT_NE(table.page(s, t, block), no_page) << "a row sees a page that is not there";
      });
    check_lines(id, s);
  }
  std::int32_t cached = 0;
  for (frame_id f = 0; f < pool.total(); ++f) {
    EXPECT_EQ(pool.holders(f), counted[f].first) << "frame " << f;
    EXPECT_EQ(pool.users(f), counted[f].second) << "frame " << f;
    EXPECT_EQ(pool.is_free(f), counted[f].first == 0 && !pool.cached(f)) << "frame " << f;
    if (table.geometry().dense()) continue;
    EXPECT_EQ(pool.cached(f), table.index().has(f)) << "frame " << f;
    cached += pool.cached(f) ? 1 : 0;
    EXPECT_LE(counted[f].second, counted[f].first);
  }
  if (!table.geometry().dense()) {
    EXPECT_EQ(static_cast<std::size_t>(cached), table.index().size());
  }
  for (const auto& [name, t] : h_.e->tenants())
    EXPECT_EQ(t.waiting,
              std::count_if(t.turns.begin(), t.turns.end(), [](const auto& e) { return !e.second->running; }));
  EXPECT_EQ(h_.e->stats().running, running);
}

namespace {

struct scenario {
  const char* name;
  fake_backend::shape shape;
  engine_options options;
  int operations;
};

std::vector<scenario> scenarios() {
  std::vector<scenario> all;
  const auto add = [&](const char* name, fake_backend::shape shape, engine_options options, int operations) {
    all.push_back({name, std::move(shape), std::move(options), operations});
  };
  const engine_options busy{.max_running = 6, .max_queued_per_tenant = 6, .max_chunk = 50};
  add("page_pressure", {.vocab = 48, .context = 200, .pages = 13, .max_rows = 60}, busy, 1500);
  add("slot_pressure", {.vocab = 48, .context = 300, .pages = 400, .max_rows = 33},
      {.max_running = 3, .max_queued_per_tenant = 3, .max_chunk = 500}, 1000);
  add("one_context", {.vocab = 48, .context = 128, .pages = 4, .max_rows = 16},
      {.max_running = 8, .max_queued_per_tenant = 6, .max_chunk = 16}, 1000);
  const fake_backend::shape windows{.vocab = 48, .context = 260, .pages = 60, .max_rows = 60, .windows = {0, 40, 40}};
  add("windows", windows, busy, 1200);
  add("windows_only", {.vocab = 48, .context = 260, .pages = 20, .max_rows = 60, .windows = {70}}, busy, 1000);
  engine_options dense = busy;
  for (const auto& [layout, name, windowed] :
       {std::tuple{cache_layout::left, "left", "left_windows"}, {cache_layout::ring, "ring", "ring_windows"}}) {
    dense.layout = layout;
    add(name, {.vocab = 48, .context = 130, .pages = 5 * 7, .max_rows = 60}, dense, 1200);
    add(windowed, {.vocab = 48, .context = 128, .pages = 3 * 4 * 5, .max_rows = 60, .windows = {0, 40, 40}}, dense,
        1000);
  }
  return all;
}

// KVERN_HISTORIES in the environment: how many seeds, for a longer search. KVERN_SEED: the first of them.
std::uint64_t number_from(const char* name, std::uint64_t absent) {
  const char* given = std::getenv(name);
  return given == nullptr ? absent : std::strtoull(given, nullptr, 10);
}

class EngineHistory : public testing::TestWithParam<scenario> {};

TEST_P(EngineHistory, IsEqualToColdRuns) {
  const scenario& s = GetParam();
  const std::uint64_t first = number_from("KVERN_SEED", 1);
  std::uint64_t reused = 0;
  for (std::uint64_t seed = first; seed < first + number_from("KVERN_HISTORIES", 6) && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("KVERN_SEED={}", seed));
    history run(seed, s.shape, s.options);
    run.run(s.operations);
    const engine_stats stats = run.stats();
    fmt::print(
        "{} seed {}: {} turns, {} steps, {} preempted, {} pages evicted, {} copied, {} reused, {} shared, {} forks, "
        "{} rotated, {} failed\n",
        s.name, seed, run.finished(), stats.steps, stats.preempted_turns, stats.evicted_pages, stats.copied_pages,
        stats.reused_tokens, stats.shared_tokens, run.forks(), run.rotated(), stats.failed_turns);
    reused += stats.reused_tokens;
  }
  EXPECT_GT(reused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Cache, EngineHistory, testing::ValuesIn(scenarios()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace kvern::gpu
