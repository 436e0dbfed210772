#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/engine/cost_model.hpp"
#include "gpu/engine/draft_policy.hpp"
#include "gpu/engine/engine.hpp"
#include "gpu/engine/prompt_lookup.hpp"
#include "gpu/engine/scheduler.hpp"
#include "gpu/engine/sequence_table.hpp"
#include "model/sampler/sampler.hpp"

namespace kvern::gpu {

using time_point = std::chrono::steady_clock::time_point;

/// A turn's guesses of its next tokens.
struct turn_drafts {
  prompt_lookup_mode mode = prompt_lookup_mode::off;
  prompt_lookup lookup = {};
  draft_record record = {};
  std::vector<token_id> tokens = {};  ///< to follow those it knows, in this step
  std::int32_t match = 0;             ///< that they follow, see prompt_lookup::find
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
};

/// A turn from submit to its end.
struct turn_record {
  turn_record(turn t, std::int32_t vocab, std::uint64_t seed)
      : request(std::move(t)), chooser(request.sampling, vocab, seed) {}

  turn request;  ///< its prompt moves into the sequence when it starts
  sampler chooser;
  gpu::sequence* sequence = nullptr;
  std::uint64_t order = 0;
  std::int32_t common = 0;  ///< tokens of the sequence at submit that the prompt keeps, compared one by one
  rotation rotate = {};
  std::vector<block_hash> chain = {};  ///< of the prompt's full blocks, the excluded tail left out
  reuse found = {};                    ///< while it waits: what it would reuse
  std::uint64_t found_at = 0;          ///< the epoch of `found`; 0: not yet looked for
  std::int32_t prompt_size = 0;
  std::int32_t limit = 0;  ///< tokens to generate, at most
  std::int32_t generated = 0;
  std::int32_t reported = 0;  ///< prompt tokens in the last progress
  std::int32_t regain = 0;    ///< lines to have before it may be preempted again
  bool running = false;
  bool started = false;           ///< left the queue once; it may have been preempted since
  bool cancelled = false;         ///< while a step was in flight
  std::int64_t keep_at_end = -1;  ///< tokens that stay when it ends cancelled; -1: all committed
  turn_drafts drafts = {};
  time_point submitted, began, first_token, last_token;

  /// The position from which on its rows have logits.
  std::int32_t logits_from() const {
    return limit > 0 ? static_cast<std::int32_t>(sequence->tokens.size()) - 1 : no_logits;
  }
};

/// Lines that a sequence's rotation has dropped.
std::int32_t forgotten(const sequence& s);

/// Appends an output, built in place.
template <class What>
void tell(std::vector<turn_output>& outputs, turn_id id, What what) {
  turn_output& o = outputs.emplace_back();
  o.id = id;
  o.what.template emplace<What>(std::move(what));
}

class engine_impl final : public engine {
 public:
  engine_impl(std::unique_ptr<backend> b, engine_options options, std::uint64_t seed);

  result<void> submit(turn t) override;
  void cancel(turn_id id, std::int64_t keep = -1) override;
  result<void> fork(sequence_id from, sequence_id to, std::int64_t length) override;
  result<std::int64_t> rewind(sequence_id id, std::int64_t length) override;
  void cut(sequence_id id, std::int64_t length) override;
  std::int64_t tokens_of(sequence_id id) const override;
  std::optional<sequence_info> describe(sequence_id id) const override;
  reuse_estimate estimate(const std::string& tenant, sequence_id id, std::span<const token_id> prompt) const override;
  result<sequence_state> state_of(sequence_id id) const override;
  result<block_lines> read_block(sequence_id id, std::int32_t table, std::int32_t block) const override;
  result<void> begin_import(sequence_id id, const std::string& tenant, sequence_state state) override;
  result<void> import_block(sequence_id id, const block_lines& lines) override;
  result<void> end_import(sequence_id id) override;
  void release(sequence_id id) override;
  bool idle() const override { return turns_.empty() && ended_.empty(); }
  void step(std::vector<turn_output>& outputs) override;
  engine_stats stats() const override;
  const backend_info& info() const override { return backend_->info(); }

  /// For tests of its invariants.
  const sequence_table& sequences() const { return sequences_; }
  const std::map<std::string, tenant_account>& tenants() const { return tenants_; }

 private:
  /// Of a turn in the step: its rows are `first` .. `first + count` - 1, then `drafted` rows of its draft.
  struct step_member {
    turn_record* turn = nullptr;
    std::int32_t first = 0;
    std::int32_t count = 0;
    std::int32_t drafted = 0;
    std::int32_t right = 0;             ///< tokens of the draft that were sampled
    error failure = {};                 ///< set when its first row could not be sampled
    bool starved = false;               ///< there was no memory to sample, nor to say so
    std::vector<sampled> choices = {};  ///< its next tokens; all but the last have rows

    bool failed() const { return starved || !failure.code.empty(); }
    /// Its first rows whose lines are those of tokens that the sequence has.
    std::int32_t valid_rows() const {
      return count + (choices.empty() ? 0 : static_cast<std::int32_t>(choices.size()) - 1);
    }
  };

  result<void> check(const turn& t) const;
  tenant_account& account(const std::string& name);
  result<void> check_room(const turn& t) const;
  rotation rotation_of(const turn& t) const;
  std::int32_t limit_of(const turn& t) const;
  std::int32_t reusable(const sequence& s) const;
  bool make_room();
  void drop_unused_accounts();

  void look();
  void look_at_running(const turn_record& r, turn_view& v);
  void look_at_waiting(turn_record& r, turn_view& v);
  void start(turn_record& t);
  void tell_started(turn_record& t, std::vector<turn_output>& outputs);
  void preempt(turn_record& t);
  turn_record& record(turn_ref r) const;
  result<void> carry_out(const step_plan& plan, const step_budget& budget, std::vector<turn_output>& outputs);
  result<void> allocate(const step_plan& plan);
  result<void> prepare(const sequence_table::preparation& todo);
  void add_rows(turn_record& t, std::int32_t rows);
  /// Safe to call for several members at once.
  void sample(step_member& m) noexcept;
  void choose(step_member& m);
  void add_drafts(const step_plan& plan, const step_budget& budget);
  std::int32_t find_draft(turn_record& t);
  void settle_drafts(double ms);
  template <class F>
  result<void> timed(F work);
  result<void> compute();
  void conclude(step_member& m, time_point now, std::vector<turn_output>& outputs);
  bool emit_token(turn_record& t, sampled choice, bool guessed, time_point now, std::vector<turn_output>& outputs);
  void end_turn(turn_record& t, finish_reason reason, error why, std::vector<turn_output>& outputs);
  void after_step(std::vector<turn_output>& outputs);

  std::unique_ptr<backend> backend_;
  engine_options options_;
  std::uint64_t seed_;
  sequence_table sequences_;
  std::int32_t context_;  ///< lines a sequence may have here
  std::map<std::string, tenant_account> tenants_;
  std::unordered_map<turn_id, std::unique_ptr<turn_record>> turns_;
  cost_model cost_;
  row_costs row_costs_;
  engine_stats counters_;
  std::uint64_t next_order_ = 0;
  domain_id next_domain_ = 1;
  domain_secret root_secret_ = make_secret();
  double virtual_time_ = 0;  ///< least service among tenants with turns, when last looked at
  std::int32_t running_ = 0;

  std::vector<turn_output> ended_;      ///< outputs of cancel(), for the next step
  std::optional<time_point> last_end_;  ///< of a step that left turns behind
  bool in_step_ = false;                ///< cancel and release take effect after sampling
  std::vector<sequence_id> released_in_step_;
  bool cancelled_in_step_ = false;

  scheduler_state state_;                             ///< these keep their memory between steps
  std::vector<tenant_account*> seen_;                 ///< [tenants of state_]
  std::vector<std::vector<turn_record*>> looked_at_;  ///< [tenants of state_][turns]
  std::int32_t pages_in_step_ = 0;
  gpu::step step_;
  std::vector<step_member> members_;
  std::vector<std::int32_t> accepted_;  ///< rows
};

}  // namespace kvern::gpu
