#include <algorithm>
#include <utility>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {

std::int32_t engine_impl::kept(const turn_record& t) {
  // The last prompt token runs in any case: its logits are wanted.
  return std::min({t.common, t.sequence->committed, t.prompt_size - 1});
}

// Fills state_ and seen_, and `turns` with the records behind the views.
void engine_impl::look(std::vector<std::vector<turn_record*>>& turns) {
  state_.free_pages = sequences_.free_pages();
  state_.total_pages = sequences_.total_pages();
  state_.tenants.resize(tenants_.size());
  turns.resize(tenants_.size());
  seen_.clear();
  for (auto& [name, account] : tenants_) {
    tenant_view& v = state_.tenants[seen_.size()];
    auto& records = turns[seen_.size()];
    seen_.push_back(&account);
    v.weight = account.weight;
    v.service = account.service;
    v.pages = account.pages;
    v.idle_pages = account.idle_pages;
    v.turns.clear();
    // One step starts no more than max_running turns; the rest of a long queue need not be looked at.
    std::int32_t waiting = 0;
    std::int32_t unseen_running = static_cast<std::int32_t>(account.turns.size()) - account.waiting;
    for (const auto& [order, record] : account.turns) {
      if (!record->running && ++waiting > options_.max_running) {
        if (unseen_running == 0) break;
        continue;
      }
      if (record->running) --unseen_running;
      const sequence& s = *record->sequence;
      const auto held = static_cast<std::int32_t>(s.pages.size());
      turn_view t{.order = order, .running = record->running, .generating = record->generated > 0};
      t.known = record->started ? static_cast<std::int32_t>(s.tokens.size()) : record->prompt_size;
      t.computed = record->started ? s.committed : kept(*record);
      t.pages = pages_for(t.computed);
      t.surplus = held - t.pages;
      t.settled = t.computed >= record->regain;
      v.turns.push_back(t);
      records.push_back(record);
    }
  }
  virtual_time_ = std::max(virtual_time_, least_service(state_, virtual_time_));
}

void engine_impl::start(turn_record& t, std::vector<turn_output>& outputs) {
  sequence& s = *t.sequence;
  sequences_.set_running(s);
  t.running = true;
  --s.tenant->waiting;
  ++running_;
  if (t.started) return;
  t.started = true;
  t.began = options_.now();
  sequences_.rewind(s, kept(t));
  s.tokens = std::move(t.request.prompt);
  t.reported = s.committed;
  counters_.reused_tokens += static_cast<std::uint64_t>(s.committed);
  tell(outputs, t.request.id, turn_started{.reused = s.committed});
}

void engine_impl::preempt(turn_record& t) {
  t.running = false;
  t.regain = std::max(t.regain, t.sequence->committed + preemption_gap);
  ++t.sequence->tenant->waiting;
  --running_;
  sequences_.set_idle(*t.sequence, true);
  ++counters_.preempted_turns;
}

result<void> engine_impl::carry_out(const step_plan& plan, const std::vector<std::vector<turn_record*>>& turns,
                                    std::vector<turn_output>& outputs) {
  const auto record = [&](turn_ref r) -> turn_record& {
    return *turns[static_cast<std::size_t>(r.tenant)][static_cast<std::size_t>(r.turn)];
  };
  for (const turn_ref r : plan.preempted) preempt(record(r));
  for (const turn_ref r : plan.started) start(record(r), outputs);
  for (std::size_t i = 0; i < plan.evictions.size(); ++i)
    if (plan.evictions[i] > 0)
      counters_.evicted_pages += static_cast<std::uint64_t>(sequences_.evict(*seen_[i], plan.evictions[i]));
  for (const planned_rows& r : plan.rows) add_rows(record(r.of), r.rows);
  return allocate(plan, turns);
}

result<void> engine_impl::allocate(const step_plan& plan, const std::vector<std::vector<turn_record*>>& turns) {
  std::vector<page_id> dirty;
  bool all = true;
  for (const planned_rows& r : plan.rows) {
    sequence& s = *turns[static_cast<std::size_t>(r.of.tenant)][static_cast<std::size_t>(r.of.turn)]->sequence;
    all = sequences_.extend(s, r.pages, dirty) && all;
  }
  if (!all) {
    sequences_.distrust(dirty);
    return fail("out_of_pages", "The cache has no page left for this step; try again.");
  }
  if (dirty.empty()) return {};
  auto cleared = backend_->clear(dirty);
  if (!cleared) sequences_.distrust(dirty);
  return cleared;
}

void engine_impl::add_rows(turn_record& t, std::int32_t rows) {
  const sequence& s = *t.sequence;
  const auto known = static_cast<std::int32_t>(s.tokens.size());
  const auto index = static_cast<std::int32_t>(members_.size());
  members_.push_back({.turn = &t, .first = static_cast<std::int32_t>(step_.rows.size()), .count = rows});
  for (std::int32_t p = s.committed; p < s.committed + rows; ++p)
    step_.rows.push_back({.token = s.tokens[static_cast<std::size_t>(p)],
                          .position = p,
                          .sequence = index,
                          .logits = p + 1 == known && t.limit > 0});
}

result<void> engine_impl::compute() {
  step_.sequences.resize(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const sequence& s = *members_[i].turn->sequence;
    step_.sequences[i].pages.assign(s.pages.begin(), s.pages.end());
    step_.sequences[i].committed = s.committed;
  }
  if (auto ok = backend_->forward(step_); !ok) return ok;
  std::vector<std::int32_t> accepted;
  accepted.reserve(step_.rows.size());
  for (step_member& m : members_) {
    if (!m.turn->cancelled) sample(m);
    if (m.turn->cancelled || !m.failure.code.empty()) continue;
    for (std::int32_t i = 0; i < m.count; ++i) accepted.push_back(m.first + i);
  }
  return backend_->finalize(accepted);
}

void engine_impl::sample(step_member& m) {
  const auto last = static_cast<std::size_t>(m.first + m.count - 1);
  if (!step_.rows[last].logits) return;
  auto choice = m.turn->chooser.next(backend_->logits(last), m.turn->sequence->tokens, m.turn->request.logprobs);
  if (!choice) {
    m.failure = std::move(choice.error());
    return;
  }
  m.choice = std::move(*choice);
  m.has_token = true;
}

// After finalize: what became of one turn of the step.
void engine_impl::conclude(step_member& m, time_point now, std::vector<turn_output>& outputs) {
  turn_record& t = *m.turn;
  sequence& s = *t.sequence;
  if (t.cancelled) return;  // ended after the step
  if (!m.failure.code.empty()) return end_turn(t, finish_reason::failed, std::move(m.failure), outputs);
  const std::int32_t prompt_rows = std::clamp(t.prompt_size - s.committed, 0, m.count);
  s.committed += m.count;
  counters_.prompt_tokens += static_cast<std::uint64_t>(prompt_rows);
  const std::int32_t processed = std::min(s.committed, t.prompt_size);
  if (processed > t.reported) {
    t.reported = processed;
    tell(outputs, t.request.id, turn_progress{.processed = processed, .total = t.prompt_size});
  }
  if (m.has_token) return emit_token(m, now, outputs);
  if (t.limit == 0 && s.committed == t.prompt_size) end_turn(t, finish_reason::length, {}, outputs);
}

void engine_impl::emit_token(step_member& m, time_point now, std::vector<turn_output>& outputs) {
  turn_record& t = *m.turn;
  const token_id token = m.choice.token;
  const bool end = options_.is_end && options_.is_end(token);
  if (t.generated++ == 0) t.first_token = now;
  t.last_token = now;
  ++counters_.generated_tokens;
  t.sequence->tokens.push_back(token);
  tell(outputs, t.request.id, turn_token{token, end, std::move(m.choice.logprob)});
  if (end && !t.request.ignore_eos) return end_turn(t, finish_reason::stop, {}, outputs);
  if (t.generated >= t.limit) end_turn(t, finish_reason::length, {}, outputs);
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
}

void engine_impl::step(std::vector<turn_output>& outputs) {
  std::move(ended_.begin(), ended_.end(), std::back_inserter(outputs));
  ended_.clear();
  if (turns_.empty()) return;

  std::vector<std::vector<turn_record*>> turns;
  look(turns);
  std::int32_t decoding = 0;
  for (const tenant_view& v : state_.tenants)
    for (const turn_view& t : v.turns) decoding += t.running && t.generating && t.known - t.computed == 1 ? 1 : 0;
  const step_budget budget{.max_rows = backend_->info().max_rows,
                           .prompt_rows = cost_.prompt_rows(decoding, options_.max_step_ms, options_.max_chunk),
                           .max_chunk = cost_.prompt_rows(0, options_.max_prompt_step_ms, options_.max_chunk),
                           .max_running = options_.max_running};
  const step_plan plan = schedule(state_, budget);
  update(state_, plan);
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i]->service = state_.tenants[i].service;

  in_step_ = true;
  members_.clear();
  step_.rows.clear();
  auto done = carry_out(plan, turns, outputs);
  const time_point begin = options_.now();
  if (done && !members_.empty()) done = compute();
  const time_point end = options_.now();
  if (!members_.empty()) {
    ++counters_.steps;
    counters_.step_seconds += std::chrono::duration<double>(end - begin).count();
    if (done)
      cost_.observe(static_cast<std::int32_t>(step_.rows.size()),
                    std::chrono::duration<double, std::milli>(end - begin).count());
  }
  for (step_member& m : members_) {
    if (done)
      conclude(m, end, outputs);
    else if (!m.turn->cancelled)
      end_turn(*m.turn, finish_reason::failed, done.error(), outputs);
  }
  after_step(outputs);
}

}  // namespace kvern::gpu
