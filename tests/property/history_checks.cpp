// What a history's engine must answer, and what must hold of its pages.
#include <algorithm>
#include <bit>

#include "tests/property/engine_invariants.hpp"
#include "tests/property/history.hpp"

namespace kvern::gpu {
namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool same_bits(const token_logprob& a, const token_logprob& b) {
  return same_bits(a.logprob, b.logprob) &&
         std::equal(a.alternatives.begin(), a.alternatives.end(), b.alternatives.begin(), b.alternatives.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

}  // namespace

// From its prompt and parameters alone.
history::live_turn history::expected_of(const turn& t) const {
  live_turn out{.request = t, .expected = {}, .cold = std::make_shared<cold_run>(model_, t.prompt, rotation_of(t))};
  cold_run& cold = *out.cold;
  sampler chooser(t.sampling, e_.info().vocab, 0);
  const std::int64_t room = context() - static_cast<std::int64_t>(t.prompt.size());
  std::int64_t limit = t.max_tokens < 0 ? room : std::min(room, t.max_tokens);
  if (t.overflow == overflow_policy::rotate) limit = t.max_tokens < 0 ? context() : t.max_tokens;
  while (static_cast<std::int64_t>(out.expected.size()) < limit) {
    cold.compute(cold.tokens.size());
    const auto choice = chooser.next(cold.sequence->logits(), cold.tokens, t.logprobs);
    if (!choice) {
      out.reason = finish_reason::failed;
      break;
    }
    out.expected.push_back(*choice);
    cold.tokens.push_back(choice->token);
    if (choice->token == end_token && !t.ignore_eos) {
      out.reason = finish_reason::stop;
      break;
    }
  }
  return out;
}

void history::take(const turn_output& o) {
  const auto it = live_.find(o.id);
  if (it == live_.end()) return expect(false, "output of turn {}, which is over", o.id);
  live_turn& l = it->second;
  const auto prompt = static_cast<std::int64_t>(l.request.prompt.size());
  if (const auto* s = std::get_if<turn_started>(&o.what)) {
    expect(!std::exchange(l.started, true), "turn {} started twice", o.id);
    l.processed = s->reused;
    expect(s->shared <= s->reused && s->reused < prompt, "turn {} reuses {} of {}", o.id, s->reused, prompt);
    cold_[l.request.sequence] = l.cold;
  } else if (const auto* p = std::get_if<turn_progress>(&o.what)) {
    expect(l.started && l.seen == 0 && p->processed > l.processed, "progress of turn {} after {}", o.id, l.processed);
    l.processed = p->processed;
  } else if (const auto* t = std::get_if<turn_token>(&o.what)) {
    expect(l.processed == prompt, "turn {} answers before its prompt is processed", o.id);
    take_token(l, *t);
  } else {
    end(l, std::get<turn_ended>(o.what));
    live_.erase(it);
  }
}

void history::take_token(live_turn& l, const turn_token& t) {
  expect(t.end_of_generation == (t.token == end_token), "turn {}: the end is marked wrong", l.request.id);
  if (l.seen >= l.expected.size()) return expect(false, "turn {} goes on after its end", l.request.id);
  const sampled& expected = l.expected[l.seen];
  expect(t.token == expected.token, "turn {}: token {} is {}, alone it is {}", l.request.id, l.seen, t.token,
         expected.token);
  expect(same_bits(t.logprob, expected.logprob), "turn {}: token {} has log-probability {}, alone {}", l.request.id,
         l.seen, t.logprob.logprob, expected.logprob.logprob);
  ++l.seen;
  const auto session = sessions_.find(l.request.sequence);
  if (session != sessions_.end()) session->second.push_back(t.token);
}

void history::end(const live_turn& l, const turn_ended& e) {
  ++finished_;
  rotated_ += e.forgotten > 0 ? 1 : 0;
  const turn_id id = l.request.id;
  const auto prompt = static_cast<std::int64_t>(l.request.prompt.size());
  const auto seen = static_cast<std::int64_t>(l.seen);
  if (l.started && l.request.exclude_tail > 0)
    expect(e.committed <= std::max<std::int64_t>(0, prompt - l.request.exclude_tail), "turn {} left a tail", id);
  switch (e.reason) {
    case finish_reason::cancelled:
      expect(l.cancelled, "turn {} was not cancelled", id);
      break;
    case finish_reason::failed:
      if (e.why.code == "no_finite_logit")
        expect(backend_->poisoned.has_value(), "turn {}: logits are not finite", id);
      else
        expect(e.why.code == "device_lost", "turn {} failed: {}: {}", id, e.why.code, e.why.message);
      break;
    default:
      expect(e.reason == l.reason && l.seen == l.expected.size(), "turn {} ended after {} of {} tokens", id, l.seen,
             l.expected.size());
      if (l.request.exclude_tail > 0) break;
      expect(e.committed == prompt + seen - (seen == 0 ? 0 : 1), "turn {} committed {} lines of {} and {}", id,
             e.committed, prompt, seen);
  }
}

// A step leaves the lines of rows that are not accepted as they were.
void history::note_dropped(std::span<const std::int32_t> accepted) {
  dropped_.clear();
  if (!options_.lazy) return;
  const std::size_t tables = e_.info().windows.size();
  for (std::size_t i = 0; i < in_flight_.rows.size(); ++i) {
    if (std::binary_search(accepted.begin(), accepted.end(), static_cast<std::int32_t>(i))) continue;
    const step_row& row = in_flight_.rows[i];
    const step_sequence& s = in_flight_.sequences[static_cast<std::size_t>(row.sequence)];
    const std::size_t blocks = s.pages.size() / tables;
    for (std::size_t t = 0; t < tables; ++t) {
      const page_id p = s.pages[t * blocks + static_cast<std::size_t>(row.position / page_lines)];
      const std::int32_t line = row.position % page_lines;
      dropped_.try_emplace({p, line}, backend_->line_of(p, line, options_.lines));
    }
  }
}

void history::check_dropped() {
  for (const auto& [where, before] : dropped_)
    expect(backend_->line_of(where.first, where.second, options_.lines) == before, "a dropped line is in page {}",
           where.first);
}

bool history::is_clear(page_id p) const {
  const auto lines = backend_->lines_of(p, page_lines);
  return std::all_of(lines.begin(), lines.end(), [](std::byte x) { return x == std::byte{0}; });
}

void history::note_copies(std::span<const page_copy> copies) {
  for (const page_copy& c : copies) {
    const domain_id owner = page_owner_[c.from];
    const domain_id before = std::exchange(page_owner_[c.to], owner);
    expect(before == 0 || before == owner || is_clear(c.to), "page {} is copied behind another tenant's lines", c.to);
  }
}

// Pages that another tenant wrote must have been cleared by the time a step uses them.
void history::check_no_foreign_lines() {
  for (const auto& [id, q] : e_.sequences().all()) {
    if (!q.running) continue;
    for (std::int32_t t = 0; t < e_.sequences().geometry().tables(); ++t)
      for (std::int32_t b = 0; b < q.blocks; ++b) {
        const page_id p = e_.sequences().page(q, t, b);
        if (p == no_page) continue;
        const domain_id owner = std::exchange(page_owner_[p], q.tenant->domain);
        // A page with lines of this sequence was copied or computed for it.
        if (owner == 0 || owner == q.tenant->domain || b * page_lines < q.committed) continue;
        expect(is_clear(p), "sequence {} gets page {} with another tenant's lines", id, p);
      }
  }
}

void history::check_lines(sequence_id id, const sequence& s) {
  const auto committed = static_cast<std::size_t>(s.committed);
  const auto begins = [&](const std::shared_ptr<cold_run>& cold) {
    return cold != nullptr && cold->rotate == s.rotate && cold->tokens.size() >= committed &&
           std::equal(s.tokens.begin(), s.tokens.begin() + s.committed, cold->tokens.begin());
  };
  std::shared_ptr<cold_run>& cold = cold_[id];
  if (!begins(cold))
    cold = std::make_shared<cold_run>(model_, std::vector(s.tokens.begin(), s.tokens.begin() + s.committed), s.rotate);
  cold->compute(committed);
  std::vector<std::byte> expected;
  for (std::int32_t t = 0; t < e_.sequences().geometry().tables(); ++t)
    for (std::int32_t b = 0; b < std::min(s.blocks, blocks_for(s.committed)); ++b) {
      const page_id p = e_.sequences().page(s, t, b);
      if (p == no_page) continue;
      const std::int32_t lines = std::min(page_lines, s.committed - b * page_lines);
      const std::vector<std::byte> found = backend_->lines_of(p, lines);
      expected.resize(found.size());
      cold->sequence->read(t, b, lines, expected);
      if (found != expected) return expect(false, "sequence {}, table {}: block {} in page {} differs", id, t, b, p);
    }
}

void history::check() {
  ++operation_;
  std::string broken = broken_invariant(e_);
  expect(broken.empty(), "{}", broken);
  for (const auto& [id, s] : e_.sequences().all())
    if ((operation_ + id) % options_.lines_are_checked_every == 0) check_lines(id, s);
}

}  // namespace kvern::gpu
