#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {

void engine_impl::look_at_running(const turn_record& r, turn_view& v) {
  const sequence& s = *r.sequence;
  v.computed = s.committed;
  v.pages = s.in_use;
  v.copies = sequences_.copies_before_write(s);
  v.lines = s.frames.empty() ? 0 : std::max(s.blocks, blocks_for(v.computed)) * page_lines;
  // Counted only when a page may run short.
  const bool plenty = sequences_.pool().free_frames() > pages_in_step_;
  v.alone = plenty ? v.pages : sequences_.exclusive(s);
}

void engine_impl::look_at_waiting(turn_record& r, turn_view& v) {
  const sequence& s = *r.sequence;
  if (r.found_at != sequences_.epoch()) {
    const std::span<const token_id> tokens = r.started ? s.tokens : r.request.prompt;
    r.found = sequences_.find_reuse(*s.tenant, &s, tokens, r.started ? s.committed : r.common, r.chain, r.rotate);
    r.found_at = sequences_.epoch();
  }
  const reuse& found = r.found;
  v.computed = found.lines;
  v.pages = found.held;
  v.idle = found.idle;
  v.surplus = found.surplus;
  v.copies = found.copies;
  v.lines = blocks_for(found.lines) * page_lines;
}

// Fills state_ and what stands behind its views: seen_ and looked_at_.
void engine_impl::look() {
  const cache_geometry& geometry = sequences_.geometry();
  for (const auto& [id, record] : turns_)
    if (record->running) sequences_.trim(*record->sequence);
  state_.free_pages = sequences_.pool().free_frames();
  state_.total_pages = sequences_.pool().total();
  state_.step_pages = geometry.step_frames();
  state_.step_lines = geometry.step_lines();
  // No step takes more than this: a new block for every turn, the blocks of its chunk, copies.
  pages_in_step_ = (2 * options_.max_running + blocks_for(options_.max_chunk) + 1) * geometry.step_frames();
  state_.tenants.resize(tenants_.size());
  looked_at_.resize(tenants_.size());
  seen_.clear();
  for (auto& [name, account] : tenants_) {
    tenant_view& v = state_.tenants[seen_.size()];
    auto& records = looked_at_[seen_.size()];
    records.clear();
    seen_.push_back(&account);
    v.weight = account.weight;
    v.service = account.service;
    v.pages = account.frames.frames;
    v.idle_pages = account.frames.idle;
    v.turns.clear();
    // One step starts no more turns than there are slots, nor more than its rows; the rest of a long queue need not be
    // looked at.
    std::int32_t waiting = 0;
    std::int32_t rows = 0;  // of the waiting ones so far
    std::int32_t unseen_running = static_cast<std::int32_t>(account.turns.size()) - account.waiting;
    for (const auto& [order, record] : account.turns) {
      if (!record->running && (++waiting > options_.max_running || rows >= options_.max_chunk)) {
        if (unseen_running == 0) break;
        continue;
      }
      if (record->running) --unseen_running;
      turn_view t{.order = order, .running = record->running, .generating = record->generated > 0};
      t.known = record->started ? static_cast<std::int32_t>(record->sequence->tokens.size()) : record->prompt_size;
      record->running ? look_at_running(*record, t) : look_at_waiting(*record, t);
      if (!record->running) rows += t.known - t.computed;
      if (geometry.dense()) t.lines = t.pages > 0 ? std::numeric_limits<std::int32_t>::max() : 0;
      t.most_rows = geometry.rows_before_wrap(record->rotate, t.computed);
      t.need = geometry.frames_for(record->rotate, t.known + 1);
      t.goal = geometry.frames_for(record->rotate, t.known + page_lines);
      t.settled = t.computed >= record->regain;
      v.turns.push_back(t);
      records.push_back(record);
    }
  }
  virtual_time_ = std::max(virtual_time_, least_service(state_, virtual_time_));
}

void engine_impl::start(turn_record& t) {
  sequence& s = *t.sequence;
  sequences_.start(s, t.found, t.rotate);
  t.running = true;
  --s.tenant->waiting;
  ++running_;
  if (!t.started) s.tokens = std::move(t.request.prompt);
  sequences_.publish(s, t.chain, s.committed);
}

void engine_impl::preempt(turn_record& t) {
  t.running = false;
  t.regain = std::max(t.regain, t.sequence->committed + preemption_gap);
  ++t.sequence->tenant->waiting;
  --running_;
  sequences_.stop(*t.sequence, idle_rank::awaited);
  t.found_at = 0;
  ++counters_.preempted_turns;
}

turn_record& engine_impl::record(turn_ref r) const {
  return *looked_at_[static_cast<std::size_t>(r.tenant)][static_cast<std::size_t>(r.turn)];
}

result<void> engine_impl::carry_out(const step_plan& plan, const step_budget& budget,
                                    std::vector<turn_output>& outputs) {
  for (const turn_ref r : plan.preempted) preempt(record(r));
  for (const turn_ref r : plan.started) start(record(r));
  for (std::size_t i = 0; i < plan.evictions.size(); ++i)
    if (plan.evictions[i] > 0)
      counters_.evicted_pages += static_cast<std::uint64_t>(sequences_.evict(*seen_[i], plan.evictions[i]) *
                                                            sequences_.geometry().frame_pages());
  auto allocated = allocate(plan);
  // A dense slot may have come without all that was found.
  for (const turn_ref r : plan.started) tell_started(record(r), outputs);
  for (const planned_rows& r : plan.rows) record(r.of).drafts.tokens.clear();
  if (allocated) add_drafts(plan, budget);
  // Without room for its rows the step fails; a sequence may have lost tokens by that.
  for (const planned_rows& r : plan.rows) add_rows(record(r.of), allocated ? r.rows : 0);
  return allocated;
}

void engine_impl::tell_started(turn_record& t, std::vector<turn_output>& outputs) {
  if (std::exchange(t.started, true)) return;
  const std::int32_t reused = t.sequence->committed;
  const std::int32_t shared = std::max(0, t.found.shared - (t.found.lines - reused));
  t.began = options_.now();
  t.reported = reused;
  counters_.reused_tokens += static_cast<std::uint64_t>(reused);
  counters_.shared_tokens += static_cast<std::uint64_t>(shared);
  tell(outputs, t.request.id, turn_started{.reused = reused, .shared = shared});
}

result<void> engine_impl::allocate(const step_plan& plan) {
  sequence_table::preparation todo;
  bool all = true;
  for (const planned_rows& r : plan.rows) {
    sequence& s = *record(r.of).sequence;
    all = sequences_.extend(s, s.committed + r.rows, r.pages, todo) && all;
  }
  if (!all) {
    sequences_.abandon(todo);
    return fail("out_of_pages", "The cache has no page left for this step; try again.");
  }
  return prepare(todo);
}

result<void> engine_impl::prepare(const sequence_table::preparation& todo) {
  result<void> done;
  if (!todo.clear.empty()) done = backend_->clear(todo.clear);
  if (done && !todo.copies.empty()) {
    counters_.copied_pages += todo.copies.size();
    done = backend_->copy(todo.copies);
  }
  if (!done) sequences_.abandon(todo);
  return done;
}

void engine_impl::add_rows(turn_record& t, std::int32_t rows) {
  const sequence& s = *t.sequence;
  const auto known = static_cast<std::int32_t>(s.tokens.size());
  const auto index = static_cast<std::int32_t>(members_.size());
  const std::vector<token_id>& draft = t.drafts.tokens;
  members_.push_back({.turn = &t,
                      .first = static_cast<std::int32_t>(step_.rows.size()),
                      .count = rows,
                      .drafted = static_cast<std::int32_t>(draft.size())});
  const std::int32_t logits_from = t.logits_from();
  for (std::int32_t p = s.committed; p < s.committed + rows; ++p)
    step_.rows.push_back(
        {.token = s.tokens[static_cast<std::size_t>(p)], .position = p, .sequence = index, .logits = p >= logits_from});
  for (std::size_t i = 0; i < draft.size(); ++i)
    step_.rows.push_back(
        {.token = draft[i], .position = known + static_cast<std::int32_t>(i), .sequence = index, .logits = true});
}

/// What `work`, the backend's, returns.
template <class F>
result<void> engine_impl::timed(F work) {
  const time_point begin = options_.now();
  auto done = work();
  counters_.backend_seconds += std::chrono::duration<double>(options_.now() - begin).count();
  return done;
}

result<void> engine_impl::compute() {
  step_.sequences.resize(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const sequence& s = *members_[i].turn->sequence;
    std::vector<page_id>& pages = step_.sequences[i].pages;
    pages.clear();
    const std::int32_t blocks = blocks_for(s.committed + members_[i].count + members_[i].drafted);
    for (std::int32_t t = 0; t < sequences_.geometry().tables(); ++t)
      for (std::int32_t b = 0; b < blocks; ++b) pages.push_back(sequences_.page(s, t, b));
    step_.sequences[i].rotate = s.rotate;
    step_.sequences[i].committed = s.committed;
  }
  if (auto ok = timed([&] { return backend_->forward(step_); }); !ok) return ok;
  // Each row's logits are as long as the vocabulary: one thread would need as long for them as for all else here.
  backend_->for_each(std::ssize(members_), [this](std::int64_t i) { sample(members_[static_cast<std::size_t>(i)]); });
  accepted_.clear();
  for (const step_member& m : members_) {
    if (m.turn->cancelled || m.failed()) continue;
    for (std::int32_t i = 0; i < m.valid_rows(); ++i) accepted_.push_back(m.first + i);
  }
  return timed([&] { return backend_->finalize(accepted_); });
}

// After finalize: what became of one turn of the step.
void engine_impl::conclude(step_member& m, time_point now, std::vector<turn_output>& outputs) {
  turn_record& t = *m.turn;
  sequence& s = *t.sequence;
  if (t.cancelled) return;  // ended after the step
  if (m.starved)
    m.failure = {"out_of_memory", "There is no memory left to choose this request's next token; try again."};
  if (m.failed()) return end_turn(t, finish_reason::failed, std::move(m.failure), outputs);
  const std::int32_t prompt_rows = std::clamp(t.prompt_size - s.committed, 0, m.count);
  s.committed += m.valid_rows();
  for (const sampled& choice : m.choices) s.tokens.push_back(choice.token);
  counters_.prompt_tokens += static_cast<std::uint64_t>(prompt_rows);
  sequences_.publish(s, t.chain, s.committed);
  const std::int32_t processed = std::min(s.committed, t.prompt_size);
  if (processed > t.reported) {
    t.reported = processed;
    tell(outputs, t.request.id, turn_progress{.processed = processed, .total = t.prompt_size});
  }
  std::int32_t right = m.right;
  for (sampled& choice : m.choices)
    if (emit_token(t, std::move(choice), right-- > 0, now, outputs)) return;
  if (t.limit == 0 && s.committed == t.prompt_size) end_turn(t, finish_reason::length, {}, outputs);
}

// Whether it was the turn's last.
bool engine_impl::emit_token(turn_record& t, sampled choice, bool guessed, time_point now,
                             std::vector<turn_output>& outputs) {
  const bool end = options_.is_end && options_.is_end(choice.token);
  if (t.generated++ == 0) t.first_token = now;
  t.last_token = now;
  ++counters_.generated_tokens;
  tell(outputs, t.request.id, turn_token{choice.token, end, std::move(choice.logprob), guessed});
  const bool stops = end && !t.request.ignore_eos;
  if (!stops && t.generated < t.limit) return false;
  end_turn(t, stops ? finish_reason::stop : finish_reason::length, {}, outputs);
  return true;
}

void engine_impl::after_step(std::vector<turn_output>& outputs) {
  in_step_ = false;
  if (std::exchange(cancelled_in_step_, false)) {
    std::vector<turn_record*> cancelled;
    for (const auto& [id, t] : turns_)
      if (t->cancelled) cancelled.push_back(t.get());
    std::sort(cancelled.begin(), cancelled.end(), [](const auto* a, const auto* b) { return a->order < b->order; });
    for (turn_record* t : cancelled) end_turn(*t, finish_reason::cancelled, {}, outputs);
  }
  for (const sequence_id id : std::exchange(released_in_step_, {})) release(id);
  drop_unused_accounts();
}

void engine_impl::step(std::vector<turn_output>& outputs) {
  std::move(ended_.begin(), ended_.end(), std::back_inserter(outputs));
  ended_.clear();
  const time_point called = options_.now();
  if (last_end_) counters_.between_seconds += std::chrono::duration<double>(called - *last_end_).count();
  last_end_.reset();
  if (turns_.empty()) return;

  look();
  const step_budget budget{.max_rows = backend_->info().max_rows,
                           .max_chunk = cost_.first_chunk(options_.max_chunk),
                           .prompt_rows = cost_.trusted_rows(options_.max_chunk),
                           .max_running = options_.max_running,
                           .cost = cost_.estimate(),
                           .max_ms = cost_.aim(options_.max_step_ms),
                           .max_prompt_ms = cost_.aim(options_.max_prompt_step_ms)};
  const step_plan plan = schedule(state_, budget);
  update(state_, plan);
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i]->service = state_.tenants[i].service;

  in_step_ = true;
  members_.clear();
  step_.rows.clear();
  auto done = carry_out(plan, budget, outputs);
  step_load load;
  for (const step_member& m : members_)
    load.add(state_.keys, m.turn->sequence->committed, m.count + m.drafted, m.turn->logits_from());
  const time_point begin = options_.now();
  if (done && !members_.empty()) done = compute();
  const time_point end = options_.now();
  const bool computed = !members_.empty();
  if (computed) {
    ++counters_.steps;
    if (done) {
      const double ms = std::chrono::duration<double, std::milli>(end - begin).count();
      cost_.observe(load, ms);
      settle_drafts(ms);
    }
  }
  for (step_member& m : members_) {
    if (done)
      conclude(m, end, outputs);
    else if (!m.turn->cancelled)
      end_turn(*m.turn, finish_reason::failed, done.error(), outputs);
  }
  after_step(outputs);
  const time_point over = options_.now();
  if (computed) counters_.step_seconds += std::chrono::duration<double>(over - called).count();
  if (!turns_.empty()) last_end_ = over;
}

}  // namespace kvern::gpu
