#include "gpu/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "gpu/engine/cache_domain.hpp"
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

std::int32_t forgotten(const sequence& s) {
  if (s.committed == 0) return 0;
  const visible_keys keys = visible(s.rotate, 0, s.committed - 1);
  return keys.first - keys.kept_end;
}

result<std::unique_ptr<engine>> engine::create(std::unique_ptr<backend> b, engine_options options) {
  if (b == nullptr) return fail("invalid_options", "The engine needs a backend.");
  if (auto ok = check_options(options, b->info()); !ok) return std::unexpected(ok.error());
  std::random_device entropy;
  const std::uint64_t seed = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
  return std::make_unique<engine_impl>(std::move(b), std::move(options), seed);
}

engine_impl::engine_impl(std::unique_ptr<backend> b, engine_options options, std::uint64_t seed)
    : backend_(std::move(b)),
      options_(std::move(options)),
      seed_(seed),
      sequences_(cache_geometry(backend_->info(), options_.layout)),
      context_(sequences_.geometry().longest(backend_->info().context)) {
  // Every running turn may have a decode row.
  options_.max_running = std::min(options_.max_running, backend_->info().max_rows);
  // Every table serves as many layers, and a row that rotates sees no more than a context.
  std::vector<std::int32_t> reach = backend_->info().windows;
  for (std::int32_t& lines : reach) lines = lines > 0 ? std::min(lines, context_) : context_;
  state_.keys = key_count(std::move(reach));
}

rotation engine_impl::rotation_of(const turn& t) const {
  if (t.overflow != overflow_policy::rotate) return {};
  const auto keep = static_cast<std::int32_t>((t.rotate_keep + page_lines - 1) / page_lines);
  return {.keep = keep, .ring = context_ / page_lines - keep};
}

/// Tokens to generate, at most.
std::int32_t engine_impl::limit_of(const turn& t) const {
  const auto prompt = static_cast<std::int32_t>(t.prompt.size());
  // A rotating sequence has no end of its own: an answer without a limit gets another context's worth.
  const std::int32_t room =
      t.overflow == overflow_policy::rotate ? backend_->info().max_position - prompt : context_ - prompt;
  const std::int64_t wanted =
      t.max_tokens < 0 && t.overflow == overflow_policy::rotate ? std::int64_t{context_} : t.max_tokens;
  return wanted < 0 ? room : static_cast<std::int32_t>(std::min<std::int64_t>(room, wanted));
}

result<void> engine_impl::check_room(const turn& t) const {
  const auto bad = [](std::string message) { return fail("invalid_request", std::move(message)); };
  const std::size_t prompt = t.prompt.size();
  if (t.overflow != overflow_policy::rotate) {
    if (prompt >= static_cast<std::size_t>(context_))
      return fail("context_length_exceeded",
                  fmt::format("This server's context of {} tokens has no room for an answer: the prompt has {} tokens. "
                              "Shorten the prompt.",
                              context_, prompt));
    if (t.overflow == overflow_policy::error && t.max_tokens > context_ - static_cast<std::int64_t>(prompt))
      return fail("context_length_exceeded",
                  fmt::format("This server's context is {} tokens; {} were asked for: {} of prompt and up to {} of "
                              "answer. Shorten the prompt, lower the limit of the answer, or choose the overflow "
                              "\"stop\" or \"rotate\".",
                              context_, static_cast<std::int64_t>(prompt) + t.max_tokens, prompt, t.max_tokens));
    return {};
  }
  if (options_.layout == cache_layout::left)
    return bad("This server's cache has the layout \"left\", which cannot rotate; choose another overflow.");
  const std::int64_t most = (context_ / page_lines - 1) * page_lines;
  if (most < page_lines) return bad("This server's context is too small to rotate.");
  if (t.rotate_keep < 0 || t.rotate_keep > most)
    return bad(fmt::format("keep must be from 0 to {}: a page of the context has to be left.", most));
  if (prompt >= static_cast<std::size_t>(backend_->info().max_position))
    return fail("context_length_exceeded",
                fmt::format("Positions end at {}: the prompt has {} tokens.", backend_->info().max_position, prompt));
  return {};
}

result<void> engine_impl::check(const turn& t) const {
  const auto bad = [](std::string message) { return fail("invalid_request", std::move(message)); };
  const std::int32_t vocab = backend_->info().vocab;
  if (t.prompt.empty()) return bad("The prompt has no tokens; it needs at least one.");
  if (t.max_tokens < -1) return bad("max_tokens must be -1 (until the context is full), 0 or more.");
  if (auto ok = check_room(t); !ok) return ok;
  for (const token_id token : t.prompt)
    if (token < 0 || token >= vocab)
      return bad(fmt::format("The prompt has a token that is not one of the vocabulary's 0 to {}.", vocab - 1));
  if (t.keep < 0) return bad("keep must be 0 or more.");
  if (t.exclude_tail < 0) return bad("The tail to keep out of the cache must be 0 tokens or more.");
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
    const domain_part parts[] = {{"tenant", name}, {"model", options_.fingerprint}, {"adapter", ""}};
    t.secret = derive_secret(root_secret_, encode_domain(parts));
    const auto weight = options_.weights.find(name);
    if (weight != options_.weights.end()) t.weight = weight->second;
  }
  return t;
}

void engine_impl::drop_unused_accounts() {
  std::erase_if(tenants_, [](const auto& entry) {
    const tenant_account& t = entry.second;
    return t.sequences == 0 && t.turns.empty() && t.frames.frames == 0;
  });
}

result<void> engine_impl::submit(turn t) {
  if (auto ok = check(t); !ok) return ok;
  sequence* s = sequences_.find(t.sequence);
  if (s != nullptr && s->tenant->name != t.tenant)
    return fail("invalid_request", "The sequence belongs to another tenant.");
  if (s != nullptr && s->turn != nullptr)
    return fail("busy", "The sequence has a turn; wait for its end or cancel it.");
  if (s != nullptr && s->importing) return fail("busy", "The sequence is being imported.");
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
  r.limit = limit_of(r.request);
  r.rotate = rotation_of(r.request);
  r.drafts.mode = !r.request.prompt_lookup   ? options_.prompt_lookup
                  : *r.request.prompt_lookup ? prompt_lookup_mode::on
                                             : prompt_lookup_mode::off;
  if (const auto& last = s->drafts ? s->drafts : tenant.drafts) r.drafts.record = last->passed_on();
  const auto cached =
      r.request.prompt.size() - static_cast<std::size_t>(std::min<std::int64_t>(r.prompt_size, r.request.exclude_tail));
  r.chain = hash_blocks(std::span(r.request.prompt).first(cached), tenant.secret);
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
  sequences_.set_rank(*s, idle_rank::awaited);
  turns_.emplace(r.request.id, std::move(record));
  ++counters_.turns;
  return {};
}

void engine_impl::cancel(turn_id id, std::int64_t keep) {
  const auto it = turns_.find(id);
  if (it == turns_.end()) return;
  it->second->keep_at_end = keep;
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
  if (s->turn != nullptr) cancel(s->turn->request.id, -1);
  if (in_step_) {
    released_in_step_.push_back(id);
    return;
  }
  sequences_.erase(*s);
  drop_unused_accounts();
}

void engine_impl::end_turn(turn_record& t, finish_reason reason, error why, std::vector<turn_output>& outputs) {
  sequence& s = *t.sequence;
  const time_point now = options_.now();
  turn_ended ended{.reason = reason, .why = std::move(why)};
  if (t.started) {
    std::int64_t stays = s.committed;
    if (t.request.exclude_tail > 0)
      stays = std::min(stays, std::max<std::int64_t>(0, t.prompt_size - t.request.exclude_tail));
    if (reason == finish_reason::cancelled && t.keep_at_end >= 0) stays = std::min(stays, t.keep_at_end);
    sequences_.cut(s, static_cast<std::int32_t>(stays));
    s.tokens.shrink_to_fit();  // an idle sequence keeps no more than it needs
    s.frames.shrink_to_fit();
    const std::int64_t wanted = t.request.max_tokens;
    ended.context_full = reason == finish_reason::length && t.request.overflow != overflow_policy::rotate &&
                         (wanted < 0 || t.limit < wanted);
    ended.forgotten = forgotten(s);
    ended.rotate_keep = std::int64_t{t.rotate.keep} * page_lines;
  }
  ended.committed = s.committed;
  ended.drafted = t.drafts.drafted;
  ended.accepted = t.drafts.accepted;
  ended.queued_ms = milliseconds(t.submitted, t.started ? t.began : now);
  if (t.started) ended.prompt_ms = milliseconds(t.began, t.generated > 0 ? t.first_token : now);
  if (t.generated > 0) ended.generate_ms = milliseconds(t.first_token, t.last_token);
  tell(outputs, t.request.id, std::move(ended));
  if (reason == finish_reason::failed) ++counters_.failed_turns;

  tenant_account& tenant = *s.tenant;
  if (t.generated > 0 && t.drafts.mode != prompt_lookup_mode::off) s.drafts = tenant.drafts = t.drafts.record;
  tenant.turns.erase(t.order);
  t.running ? --running_ : --tenant.waiting;
  s.turn = nullptr;
  if (t.started) sequences_.trim(s);  // what a rotation has forgotten is not kept until the next turn
  sequences_.stop(s, idle_rank::unused);
  sequences_.set_rank(s, idle_rank::unused);
  turns_.erase(t.request.id);
}

engine_stats engine_impl::stats() const {
  engine_stats out = counters_;
  out.running = running_;
  out.queued = static_cast<std::int32_t>(turns_.size()) - running_;
  out.sequences = sequences_.size();
  const frame_pool& pool = sequences_.pool();
  const std::int32_t frame_pages = sequences_.geometry().frame_pages();
  out.pages_total = pool.total() * frame_pages;
  out.pages_used = (pool.total() - pool.free_frames()) * frame_pages;
  out.pages_shared = pool.shared() * frame_pages;
  return out;
}

}  // namespace kvern::gpu
