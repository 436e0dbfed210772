// Tokens that a step computes on a guess, and what becomes of them.
#include <algorithm>
#include <exception>
#include <utility>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {

// Finds what may follow a turn's one token without lines; returns how many tokens of it can have rows. They have room
// in the block of that token: a draft takes no page, and whatever the layout, it writes where no row sees a line.
std::int32_t engine_impl::find_draft(turn_record& t) {
  const std::vector<token_id>& tokens = t.sequence->tokens;
  const std::int32_t in_block = page_lines - 1 - t.sequence->committed % page_lines;
  const std::int32_t most = std::min({longest_draft, in_block, t.limit - t.generated - 1});
  t.drafts.lookup.update(tokens);
  t.drafts.match = t.drafts.lookup.find(tokens, most, t.drafts.tokens);
  return static_cast<std::int32_t>(t.drafts.tokens.size());
}

// After the plan, from what it leaves of rows and of the time that prompts may take.
void engine_impl::add_drafts(const step_plan& plan, const step_budget& budget) {
  std::vector<turn_record*> guessing;
  std::vector<draft_wish> wishes;
  draft_room room;
  step_load load;
  std::int32_t deepest = 0;
  for (const planned_rows& r : plan.rows) {
    turn_record& t = record(r.of);
    room.rows += r.rows;
    load.add(state_.keys, t.sequence->committed, r.rows, t.logits_from());
    deepest = std::max(deepest, t.sequence->committed + 1);
    if (t.generated == 0 || t.sequence->committed + 1 != static_cast<std::int32_t>(t.sequence->tokens.size())) continue;
    ++room.decoding;
    if (t.drafts.mode == prompt_lookup_mode::off) continue;
    const std::int32_t most = find_draft(t);
    if (most == 0) continue;
    guessing.push_back(&t);
    wishes.push_back({.most = most,
                      .chance = t.drafts.record.chance(t.drafts.match),
                      .credit = t.drafts.record.credit(),
                      .always = t.drafts.mode == prompt_lookup_mode::on});
  }
  const std::int32_t prompt_rows = room.rows - room.decoding;
  const double alone = budget.cost.of(load);
  double ms = budget.max_ms - alone;
  // Where decode rows alone take as long as a step should, drafts may add a quarter to that, as prompts may.
  if (prompt_rows == 0) ms = std::max(ms, alone / 4);
  const std::int32_t left = std::min(budget.max_rows - room.rows, budget.prompt_rows - prompt_rows);
  room.most = budget.cost.rows_within(state_.keys, deepest, std::max(0, left), ms, deepest);
  const std::vector<std::int32_t> lengths = share_drafts(wishes, room, row_costs_, budget.cost);
  for (std::size_t i = 0; i < guessing.size(); ++i) {
    turn_record& t = *guessing[i];
    t.drafts.tokens.resize(static_cast<std::size_t>(lengths[i]));
    tenant_account& tenant = *t.sequence->tenant;
    tenant.service += lengths[i] / tenant.weight;
  }
}

// Chooses a turn's next tokens, as plain decoding would one after the other: a row of the draft counts while its token
// is the one that was chosen before it.
void engine_impl::choose(step_member& m) {
  const std::int32_t last = m.first + m.count - 1;
  if (m.turn->cancelled || !step_.rows[static_cast<std::size_t>(last)].logits) return;
  turn_record& t = *m.turn;
  std::vector<token_id>& tokens = t.sequence->tokens;
  for (std::int32_t i = 0; i <= m.drafted; ++i) {
    auto choice = t.chooser.next(backend_->logits(static_cast<std::size_t>(last + i)), tokens, t.request.logprobs);
    if (!choice) {
      // With tokens before it, they are the step's; the next one begins with this row and fails as it must.
      if (i == 0) m.failure = std::move(choice.error());
      break;
    }
    const token_id token = choice->token;
    m.choices.push_back(std::move(*choice));
    if (i == m.drafted || token != t.drafts.tokens[static_cast<std::size_t>(i)]) break;
    ++m.right;
    if (!t.request.ignore_eos && options_.is_end && options_.is_end(token)) break;
    tokens.push_back(token);  // for the penalties of the next choice
  }
}

void engine_impl::sample(step_member& m) noexcept {
  std::vector<token_id>& tokens = m.turn->sequence->tokens;
  const std::size_t known = tokens.size();
  try {
    choose(m);
  } catch (const std::exception&) {
    m.choices.clear();
    m.starved = true;
  }
  tokens.resize(known);
}

// What the step's time says of drafts, and what each turn's brought it.
void engine_impl::settle_drafts(double ms) {
  const auto rows = static_cast<std::int32_t>(step_.rows.size());
  std::int32_t decoding = 0;
  std::int32_t drafted = 0;
  for (const step_member& m : members_) {
    drafted += m.drafted;
    decoding += m.turn->generated > 0 && m.count == 1 ? 1 : 0;
  }
  const step_cost cost = cost_.estimate();
  if (decoding + drafted == rows) row_costs_.observe(rows, drafted, ms);
  const double few = row_costs_.estimate(decoding, 0, cost);
  const double plain = few + cost.per_row * (rows - drafted - decoding);
  const double added = drafted == 0 ? 0 : std::max(0.0, row_costs_.estimate(decoding + drafted, drafted, cost) - few);
  // In steps of this size, lost by all of their turns.
  const double each = added > 0 && plain > 0 ? added / plain * decoding / drafted : 0;
  for (step_member& m : members_) {
    turn_drafts& d = m.turn->drafts;
    if (m.turn->cancelled || m.choices.empty()) continue;
    d.record.settle(1 + m.right, each * m.drafted);
    if (m.drafted == 0) continue;
    d.record.observe(d.match, m.drafted, m.right);
    d.drafted += m.drafted;
    d.accepted += m.right;
    counters_.drafted_tokens += static_cast<std::uint64_t>(m.drafted);
    counters_.accepted_tokens += static_cast<std::uint64_t>(m.right);
  }
}

}  // namespace kvern::gpu
