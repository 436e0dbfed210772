// What a history does to its engine.
#include "tests/property/history.hpp"

#include <algorithm>
#include <iterator>

namespace kvern::gpu {

history::history(std::uint64_t seed, std::unique_ptr<backend> b, cold_model& model, history_options options)
    : random_(seed),
      options_(std::move(options)),
      model_(model),
      backend_(new watched_backend(std::move(b))),
      e_(std::unique_ptr<backend>(backend_), with_hooks(options_.engine), 1) {
  watch();
}

engine_options history::with_hooks(engine_options o) {
  o.is_end = [](token_id t) { return t == end_token; };
  o.now = [this] { return now_; };
  return o;
}

void history::watch() {
  const auto lost = [](bool fails) -> result<void> {
    if (fails) return fail("device_lost", "test");
    return {};
  };
  backend_->before_forward = [this, lost](const gpu::step& s) {
    in_flight_ = s;
    check_no_foreign_lines();
    if (below(200) == 0) cancel_one();
    if (below(800) == 0) release_one();
    return lost(fail_.before_forward);
  };
  backend_->after_forward = [this, lost](const gpu::step& s) {
    if (fail_.row) {
      const std::size_t row = below(s.rows.size());
      if (s.rows[row].logits) backend_->poisoned = row;
    }
    return lost(fail_.after_forward);
  };
  backend_->before_finalize = [this, lost](std::span<const std::int32_t> accepted) {
    now_ += std::chrono::milliseconds(5) + std::chrono::microseconds(250 * in_flight_.rows.size());
    note_dropped(accepted);
    return lost(fail_.finalize);
  };
  backend_->after_finalize = [this] { check_dropped(); };
  backend_->before_clear = [this, lost](std::span<const page_id>) { return lost(fail_.clear); };
  backend_->before_copy = [this, lost](std::span<const page_copy> copies) {
    if (!fail_.copy) note_copies(copies);
    return lost(fail_.copy);
  };
  backend_->before_write = [](page_id) {};
}

std::string history::run(int operations) {
  for (int i = 0; i < operations && violation_.empty(); ++i) {
    operate();
    check();
  }
  for (int i = 0; i < 20000 && !e_.idle() && violation_.empty(); ++i) {
    step();
    check();
  }
  expect(e_.idle() && live_.empty(), "the engine does not come to an end");
  while (!sessions_.empty() && violation_.empty()) release_one();
  expect(e_.stats().sequences == 0, "sequences are left");
  check();
  return violation_.empty() ? "" : fmt::format("operation {}: {}", operation_, violation_);
}

void history::operate() {
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
}

rotation history::rotation_of(const turn& t) const {
  if (t.overflow != overflow_policy::rotate) return {};
  const auto keep = static_cast<std::int32_t>((t.rotate_keep + page_lines - 1) / page_lines);
  return {.keep = keep, .ring = context() / page_lines - keep};
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
  t.logprobs = static_cast<std::int32_t>(below(3));
  t.sampling.temperature = below(2) == 0 ? 0.0 : 0.9;
  t.sampling.seed = below(1000);
  if (below(3) == 0) {
    t.sampling.repetition_penalty = 1.3;
    t.sampling.frequency_penalty = 0.2;
    t.sampling.penalty_window = static_cast<std::int64_t>(below(40)) - 1;
  }
  // Some answers say the same few tokens again and again, so that there is something to guess.
  if (below(3) == 0) {
    t.sampling.repetition_penalty = 1;
    t.sampling.frequency_penalty = 0;
    for (std::uint64_t i = 0; i < 1 + below(3); ++i) t.sampling.logit_bias.emplace_back(any_token(), 12.0);
  }
  if (below(2) == 0) t.prompt_lookup = below(2) == 0;
  choose_overflow(t);
  t.prompt.resize(std::min(t.prompt.size(), options_.longest_prompt));
  if (below(6) == 0) t.exclude_tail = static_cast<std::int64_t>(below(40));
  return t;
}

void history::choose_overflow(turn& t) {
  const auto overflow = below(6);
  if (overflow < 2) t.overflow = overflow_policy::stop;
  if (overflow < 1 || (may_rotate() && t.sequence % 4 == 1)) {
    t.overflow = overflow_policy::rotate;
    t.rotate_keep = static_cast<std::int64_t>(below(4) == 0 ? below(80) : t.sequence % 3 * 17);
  }
}

void history::submit() {
  const sequence_id id =
      below(4) == 0 && last_relative_ > 100 ? 101 + below(last_relative_ - 100) : below(options_.sessions);
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
  const auto ok = e_.submit(t);
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
  live_.emplace(t.id, expected_of(t));
}

void history::cancel_one() {
  if (live_.empty()) return;
  const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(below(live_.size())));
  it->second.cancelled = true;
  const auto sent = static_cast<std::int64_t>(it->second.request.prompt.size() + it->second.seen);
  e_.cancel(it->first, below(2) == 0 ? -1 : sent - static_cast<std::int64_t>(below(3)));
}

sequence_id history::any_sequence() {
  return std::next(sessions_.begin(), static_cast<std::ptrdiff_t>(below(sessions_.size())))->first;
}

void history::release_one() {
  if (sessions_.empty()) return;
  const sequence_id id = any_sequence();
  for (auto& [turn, l] : live_)
    if (l.request.sequence == id) l.cancelled = true;
  e_.release(id);
  sessions_.erase(id);
  cold_.erase(id);
}

void history::fork_one() {
  if (sessions_.empty()) return;
  const sequence_id from = any_sequence();
  const sequence* parent = std::as_const(e_).sequences().find(from);
  const sequence_id to = next_relative(from);
  if (parent == nullptr) return expect_error(e_.fork(from, to, 0), "not_found");
  const std::size_t length = below(3) == 0 ? below(parent->tokens.size() + 1) : parent->tokens.size();
  const std::int32_t used = e_.stats().pages_used;
  const auto forked = e_.fork(from, to, static_cast<std::int64_t>(length));
  expect(forked.has_value(), "fork failed");
  expect(e_.stats().pages_used == used, "a fork copied pages");
  sessions_[to].assign(parent->tokens.begin(), parent->tokens.begin() + static_cast<std::ptrdiff_t>(length));
  if (cold_.contains(from)) cold_[to] = cold_[from];
  last_relative_ = to;
  ++forks_;
}

void history::rewind_one() {
  if (sessions_.empty()) return;
  const sequence_id id = any_sequence();
  const sequence* s = std::as_const(e_).sequences().find(id);
  if (s == nullptr) return;
  const auto length = static_cast<std::int64_t>(below(s->tokens.size() + 1));
  const bool busy = s->turn != nullptr;
  const auto reusable = e_.rewind(id, length);
  expect(reusable.has_value() == !busy, "rewind: busy or not");
  if (!reusable) return;
  expect(*reusable <= length, "rewind: more is reusable than is left");
  sessions_[id].resize(std::min(sessions_[id].size(), static_cast<std::size_t>(length)));
  // Told honestly: a prompt that goes on from there finds as much.
  std::vector<token_id> prompt = s->tokens;
  prompt.push_back(1);
  if (s->rotate == rotation{})
    expect(e_.estimate(tenant_of(id), id, prompt).reused == *reusable, "rewind: another prompt would find else");
}

// Export and import into a new sequence.
void history::copy_one() {
  if (sessions_.empty()) return;
  const sequence_id from = any_sequence();
  const auto state = e_.state_of(from);
  if (!state) return;
  std::vector<block_lines> blocks;
  for (std::int32_t t = 0; t < e_.sequences().geometry().tables(); ++t)
    for (std::int32_t b = 0; b < blocks_for(state->committed); ++b)
      if (auto lines = e_.read_block(from, t, b)) blocks.push_back(std::move(*lines));
  std::shuffle(blocks.begin(), blocks.end(), random_);
  if (below(3) == 0 && !blocks.empty()) blocks.pop_back();
  const sequence_id to = next_relative(from);
  const auto begun = e_.begin_import(to, tenant_of(to), *state);
  expect(begun.has_value(), "import failed");
  if (!begun) return;
  backend_->before_write = [&](page_id p) { page_owner_[p] = e_.sequences().find(to)->tenant->domain; };
  for (const block_lines& b : blocks) {
    const auto ok = e_.import_block(to, b);
    if (ok) continue;
    const std::string& code = ok.error().code;
    expect(code == "out_of_pages" || (code == "device_lost" && fail_.clear), "import_block: {}", code);
    return e_.release(to);
  }
  expect(e_.end_import(to).has_value(), "end_import failed");
  sessions_[to] = state->tokens;
  if (cold_.contains(from)) cold_[to] = cold_[from];
  last_relative_ = to;
}

void history::step() {
  fail_ = {.before_forward = below(400) == 0,
           .after_forward = below(400) == 0,
           .finalize = below(400) == 0,
           .clear = below(200) == 0,
           .copy = below(50) == 0,
           .row = below(100) == 0};
  const bool work = e_.stats().running + e_.stats().queued > 0;
  const auto before = e_.stats().steps;
  std::vector<turn_output> outputs;
  e_.step(outputs);
  expect(e_.stats().steps == before + (work ? 1 : 0), "a step without a row");
  for (const turn_output& o : outputs) take(o);
  expect(!backend_->open(), "a step was neither committed nor dropped");
}

}  // namespace kvern::gpu
