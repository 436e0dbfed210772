#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/engine/cost_model.hpp"
#include "gpu/engine/engine.hpp"
#include "gpu/engine/scheduler.hpp"
#include "gpu/engine/sequence_table.hpp"
#include "model/sampler/sampler.hpp"

namespace kvern::gpu {

using time_point = std::chrono::steady_clock::time_point;

/// A turn from submit to its end.
struct turn_record {
  turn_record(turn t, std::int32_t vocab, std::uint64_t seed)
      : request(std::move(t)), chooser(request.sampling, vocab, seed) {}

  turn request;  ///< its prompt moves into the sequence when it starts
  sampler chooser;
  gpu::sequence* sequence = nullptr;
  std::uint64_t order = 0;
  std::int32_t common = 0;  ///< tokens of the sequence at submit that the prompt keeps, compared one by one
  std::int32_t prompt_size = 0;
  std::int32_t limit = 0;  ///< tokens to generate, at most
  std::int32_t generated = 0;
  std::int32_t reported = 0;  ///< prompt tokens in the last progress
  std::int32_t regain = 0;    ///< lines to have before it may be preempted again
  bool running = false;
  bool started = false;    ///< left the queue once; it may have been preempted since
  bool cancelled = false;  ///< while a step was in flight
  time_point submitted, began, first_token, last_token;
};

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
  void cancel(turn_id id) override;
  void release(sequence_id id) override;
  bool idle() const override { return turns_.empty() && ended_.empty(); }
  void step(std::vector<turn_output>& outputs) override;
  engine_stats stats() const override;
  const backend_info& info() const override { return backend_->info(); }

  /// For tests of its invariants.
  const sequence_table& sequences() const { return sequences_; }
  const std::map<std::string, tenant_account>& tenants() const { return tenants_; }

 private:
  /// Of a turn in the step: its rows are `first` .. `first + count` - 1.
  struct step_member {
    turn_record* turn = nullptr;
    std::int32_t first = 0;
    std::int32_t count = 0;
    error failure = {};  ///< set when its row could not be sampled
    bool has_token = false;
    sampled choice = {};
  };

  result<void> check(const turn& t) const;
  tenant_account& account(const std::string& name);
  void drop_unused(tenant_account& t);
  std::int32_t context() const;
  /// Tokens of the sequence that a turn which has not started would keep now.
  static std::int32_t kept(const turn_record& t);

  void look(std::vector<std::vector<turn_record*>>& turns);
  void start(turn_record& t, std::vector<turn_output>& outputs);
  void preempt(turn_record& t);
  result<void> carry_out(const step_plan& plan, const std::vector<std::vector<turn_record*>>& turns,
                         std::vector<turn_output>& outputs);
  result<void> allocate(const step_plan& plan, const std::vector<std::vector<turn_record*>>& turns);
  void add_rows(turn_record& t, std::int32_t rows);
  void sample(step_member& m);
  result<void> compute();
  void conclude(step_member& m, time_point now, std::vector<turn_output>& outputs);
  void emit_token(step_member& m, time_point now, std::vector<turn_output>& outputs);
  void end_turn(turn_record& t, finish_reason reason, error why, std::vector<turn_output>& outputs);
  void after_step(std::vector<turn_output>& outputs);

  std::unique_ptr<backend> backend_;
  engine_options options_;
  std::uint64_t seed_;
  sequence_table sequences_;
  std::map<std::string, tenant_account> tenants_;
  std::unordered_map<turn_id, std::unique_ptr<turn_record>> turns_;
  cost_model cost_;
  engine_stats counters_;
  std::uint64_t next_order_ = 0;
  domain_id next_domain_ = 1;
  double virtual_time_ = 0;  ///< least service among tenants with turns, when last looked at
  std::int32_t running_ = 0;

  std::vector<turn_output> ended_;  ///< outputs of cancel(), for the next step
  bool in_step_ = false;            ///< cancel and release take effect after sampling
  std::vector<sequence_id> released_in_step_;
  bool cancelled_in_step_ = false;

  scheduler_state state_;  ///< these four keep their memory between steps
  std::vector<tenant_account*> seen_;
  gpu::step step_;
  std::vector<step_member> members_;
};

}  // namespace kvern::gpu
