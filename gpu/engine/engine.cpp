#include "gpu/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {
namespace {

double milliseconds(time_point from, time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

result<void> check_options(const engine_options& o, const backend_info& b) {
  const auto bad = [](const char* what) { return fail("invalid_options", what); };
  if (b.vocab < 1 || b.context < 1 || b.pages < 1 || b.max_rows < 1)
    return bad("The backend must have a vocabulary, a context, pages and rows; check kv_memory and the model file.");
  if (o.max_running < 1) return bad("max_running must be 1 or more.");
  if (o.max_queued_per_tenant < 1) return bad("max_queued_per_tenant must be 1 or more.");
  if (o.max_chunk < 1) return bad("max_chunk must be 1 or more.");
  if (!(o.max_step_ms > 0 && std::isfinite(o.max_step_ms))) return bad("max_step_ms must be a number above 0.");
  if (!(o.max_prompt_step_ms > 0 && std::isfinite(o.max_prompt_step_ms)))
    return bad("max_prompt_step_ms must be a number above 0.");
  for (const auto& [tenant, weight] : o.weights)
    if (!(weight > 0 && std::isfinite(weight))) return bad("A tenant's weight must be a number above 0.");
  if (!o.now) return bad("The engine needs a clock.");
  return {};
}

}  // namespace

result<std::unique_ptr<engine>> engine::create(std::unique_ptr<backend> b, engine_options options) {
  if (b == nullptr) return fail("invalid_options", "The engine needs a backend.");
  if (auto ok = check_options(options, b->info()); !ok) return std::unexpected(ok.error());
  std::random_device entropy;
  const std::uint64_t seed = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
  return std::make_unique<engine_impl>(std::move(b), std::move(options), seed);
}

engine_impl::engine_impl(std::unique_ptr<backend> b, engine_options options, std::uint64_t seed)
    : backend_(std::move(b)), options_(std::move(options)), seed_(seed), sequences_(backend_->info().pages) {
  // Every running turn may have a decode row.
  options_.max_running = std::min(options_.max_running, backend_->info().max_rows);
}

std::int32_t engine_impl::context() const {
  const std::int64_t pool = static_cast<std::int64_t>(backend_->info().pages) * page_lines;
  return static_cast<std::int32_t>(std::min<std::int64_t>(backend_->info().context, pool));
}

result<void> engine_impl::check(const turn& t) const {
  const auto bad = [](std::string message) { return fail("invalid_request", std::move(message)); };
  const std::int32_t vocab = backend_->info().vocab;
  if (t.prompt.empty()) return bad("The prompt has no tokens; it needs at least one.");
  if (t.prompt.size() >= static_cast<std::size_t>(context()))
    return fail("context_length_exceeded",
                fmt::format("This server's context of {} tokens has no room for an answer: the prompt has {} tokens. "
                            "Shorten the prompt.",
                            context(), t.prompt.size()));
  for (const token_id token : t.prompt)
    if (token < 0 || token >= vocab)
      return bad(fmt::format("The prompt has a token that is not one of the vocabulary's 0 to {}.", vocab - 1));
  if (t.keep < 0) return bad("keep must be 0 or more.");
  if (t.max_tokens < -1) return bad("max_tokens must be -1 (until the context is full), 0 or more.");
  if (t.logprobs < -1 || t.logprobs > max_alternatives)
    return bad(fmt::format("logprobs must be from 0 to {}.", max_alternatives));
  if (turns_.contains(t.id)) return bad("The turn id is in use.");
  return validate(t.sampling, vocab);
}

tenant_account& engine_impl::account(const std::string& name) {
  const auto [it, added] = tenants_.try_emplace(name);
  tenant_account& t = it->second;
  if (added) {
    t.name = name;
    t.domain = next_domain_++;
    const auto weight = options_.weights.find(name);
    if (weight != options_.weights.end()) t.weight = weight->second;
  }
  return t;
}

void engine_impl::drop_unused(tenant_account& t) {
  if (t.sequences == 0 && t.turns.empty()) tenants_.erase(std::string(t.name));
}

result<void> engine_impl::submit(turn t) {
  if (auto ok = check(t); !ok) return ok;
  sequence* s = sequences_.find(t.sequence);
  if (s != nullptr && s->tenant->name != t.tenant)
    return fail("invalid_request", "The sequence belongs to another tenant.");
  if (s != nullptr && s->turn != nullptr)
    return fail("busy", "The sequence has a turn; wait for its end or cancel it.");
  tenant_account& tenant = account(t.tenant);
  if (tenant.waiting >= options_.max_queued_per_tenant)
    return fail("queue_full", fmt::format("{} requests are waiting already; try again later.", tenant.waiting));

  const std::uint64_t order = next_order_++;
  auto record =
      std::make_unique<turn_record>(std::move(t), backend_->info().vocab, seed_ ^ (order * 0x9e3779b97f4a7c15U));
  turn_record& r = *record;
  if (s == nullptr) s = &sequences_.create(r.request.sequence, tenant);
  r.sequence = s;
  r.order = order;
  r.prompt_size = static_cast<std::int32_t>(r.request.prompt.size());
  const std::int32_t room = context() - r.prompt_size;
  r.limit =
      r.request.max_tokens < 0 ? room : static_cast<std::int32_t>(std::min<std::int64_t>(room, r.request.max_tokens));
  const auto most = std::min<std::int64_t>({r.request.keep, r.prompt_size, s->committed});
  while (r.common < most &&
         r.request.prompt[static_cast<std::size_t>(r.common)] == s->tokens[static_cast<std::size_t>(r.common)])
    ++r.common;
  r.submitted = options_.now();

  // A tenant that returns from idle has no claim on the time it was away.
  if (tenant.turns.empty()) tenant.service = std::max(tenant.service, virtual_time_);
  tenant.turns.emplace(order, &r);
  ++tenant.waiting;
  s->turn = &r;
  sequences_.set_idle(*s, true);
  turns_.emplace(r.request.id, std::move(record));
  ++counters_.turns;
  return {};
}

void engine_impl::cancel(turn_id id) {
  const auto it = turns_.find(id);
  if (it == turns_.end()) return;
  if (in_step_) {
    it->second->cancelled = true;
    cancelled_in_step_ = true;
    return;
  }
  end_turn(*it->second, finish_reason::cancelled, {}, ended_);
}

void engine_impl::release(sequence_id id) {
  sequence* s = sequences_.find(id);
  if (s == nullptr) return;
  if (s->turn != nullptr) cancel(s->turn->request.id);
  if (in_step_) {
    released_in_step_.push_back(id);
    return;
  }
  tenant_account& tenant = *s->tenant;
  sequences_.erase(*s);
  drop_unused(tenant);
}

void engine_impl::end_turn(turn_record& t, finish_reason reason, error why, std::vector<turn_output>& outputs) {
  sequence& s = *t.sequence;
  const time_point now = options_.now();
  sequences_.rewind(s, s.committed);
  turn_ended ended{.reason = reason, .why = std::move(why), .committed = s.committed};
  ended.queued_ms = milliseconds(t.submitted, t.started ? t.began : now);
  if (t.started) ended.prompt_ms = milliseconds(t.began, t.generated > 0 ? t.first_token : now);
  if (t.generated > 0) ended.generate_ms = milliseconds(t.first_token, t.last_token);
  tell(outputs, t.request.id, std::move(ended));
  if (reason == finish_reason::failed) ++counters_.failed_turns;

  tenant_account& tenant = *s.tenant;
  tenant.turns.erase(t.order);
  t.running ? --running_ : --tenant.waiting;
  s.turn = nullptr;
  sequences_.set_idle(s, false);
  turns_.erase(t.request.id);
}

engine_stats engine_impl::stats() const {
  engine_stats out = counters_;
  out.running = running_;
  out.queued = static_cast<std::int32_t>(turns_.size()) - running_;
  out.sequences = sequences_.size();
  out.pages_total = sequences_.total_pages();
  out.pages_used = out.pages_total - sequences_.free_pages();
  return out;
}

}  // namespace kvern::gpu
