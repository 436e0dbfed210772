// What the engine does to sequences outside of turns.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {
namespace {

std::unexpected<error> not_found() {
  return fail("not_found", "There is no such sequence, or it has lost these lines.");
}

}  // namespace

result<void> engine_impl::fork(sequence_id from, sequence_id to, std::int64_t length) {
  const sequence* parent = sequences_.find(from);
  if (parent == nullptr) return not_found();
  if (parent->importing) return fail("busy", "The sequence is being imported.");
  if (sequences_.find(to) != nullptr) return fail("invalid_request", "The new sequence exists already.");
  if (length < 0 || length > static_cast<std::int64_t>(parent->tokens.size()))
    return fail("invalid_request", fmt::format("The sequence has {} tokens.", parent->tokens.size()));
  // The tail that a running turn keeps out of the cache is not passed on either.
  const turn_record* t = parent->turn;
  const std::int64_t cacheable = t == nullptr || !t->started || t->request.exclude_tail == 0
                                     ? parent->committed
                                     : std::max<std::int64_t>(0, t->prompt_size - t->request.exclude_tail);
  sequence& child = sequences_.create(to, *parent->tenant);
  sequences_.fork(*sequences_.find(from), child, static_cast<std::int32_t>(length),
                  static_cast<std::int32_t>(std::min({length, cacheable, std::int64_t{parent->committed}})));
  return {};
}

/// How many of its tokens a prompt that continues them need not compute.
std::int32_t engine_impl::reusable(const sequence& s) const {
  std::vector<token_id> longer = s.tokens;
  longer.push_back(0);
  const auto common = static_cast<std::int32_t>(s.tokens.size());
  const std::vector<block_hash> chain = hash_blocks(s.tokens, s.tenant->secret);
  return sequences_.find_reuse(*s.tenant, &s, longer, common, chain, s.rotate).lines;
}

result<std::int64_t> engine_impl::rewind(sequence_id id, std::int64_t length) {
  sequence* s = sequences_.find(id);
  if (s == nullptr) return not_found();
  if (s->turn != nullptr || s->importing)
    return fail("busy", "The sequence has a turn; wait for its end or cancel it.");
  if (length < 0 || length > static_cast<std::int64_t>(s->tokens.size()))
    return fail("invalid_request", fmt::format("The sequence has {} tokens.", s->tokens.size()));
  sequences_.cut(*s, static_cast<std::int32_t>(length));
  return reusable(*s);
}

void engine_impl::cut(sequence_id id, std::int64_t length) {
  sequence* s = sequences_.find(id);
  if (s == nullptr || s->turn != nullptr || s->importing || length < 0 || length >= std::ssize(s->tokens)) return;
  sequences_.cut(*s, static_cast<std::int32_t>(length));
}

std::int64_t engine_impl::tokens_of(sequence_id id) const {
  const sequence* s = sequences_.find(id);
  return s == nullptr ? 0 : std::ssize(s->tokens);
}

std::optional<sequence_info> engine_impl::describe(sequence_id id) const {
  const sequence* s = sequences_.find(id);
  if (s == nullptr) return std::nullopt;
  sequence_info out;
  out.tokens = static_cast<std::int64_t>(s->tokens.size());
  out.committed = sequences_.lines_there(*s);
  out.reusable = s->turn != nullptr ? out.committed : reusable(*s);
  out.forgotten = forgotten(*s);
  const frame_pool& pool = sequences_.pool();
  for (const held_frame& f : s->frames) {
    if (!pool.valid(f.claim)) continue;
    out.pages += sequences_.geometry().frame_pages();
    if (pool.holders(f.claim.frame) > 1) out.shared_pages += sequences_.geometry().frame_pages();
  }
  out.bytes = static_cast<std::uint64_t>(out.pages) * backend_->info().page_bytes;
  return out;
}

reuse_estimate engine_impl::estimate(const std::string& tenant, sequence_id id,
                                     std::span<const token_id> prompt) const {
  const auto account = tenants_.find(tenant);
  if (account == tenants_.end() || prompt.empty()) return {};
  const sequence* s = sequences_.find(id);
  if (s != nullptr && (s->tenant != &account->second || s->importing)) s = nullptr;
  std::int32_t common = 0;
  if (s != nullptr) {
    const auto most = static_cast<std::int32_t>(std::min(prompt.size(), s->tokens.size()));
    while (common < most && prompt[static_cast<std::size_t>(common)] == s->tokens[static_cast<std::size_t>(common)])
      ++common;
  }
  const reuse found =
      sequences_.find_reuse(account->second, s, prompt, common, hash_blocks(prompt, account->second.secret),
                            s == nullptr ? rotation{} : s->rotate);
  return {.reused = found.lines, .shared = found.shared};
}

result<sequence_state> engine_impl::state_of(sequence_id id) const {
  const sequence* s = sequences_.find(id);
  if (s == nullptr || s->importing) return not_found();
  return sequence_state{.tokens = s->tokens, .committed = sequences_.lines_there(*s), .rotate = s->rotate};
}

result<block_lines> engine_impl::read_block(sequence_id id, std::int32_t table, std::int32_t block) const {
  const sequence* s = sequences_.find(id);
  if (s == nullptr || s->importing || table < 0 || table >= sequences_.geometry().tables() || block < 0 ||
      block >= blocks_for(s->committed))
    return not_found();
  const page_id page = sequences_.page(*s, table, block);
  if (page == no_page) return not_found();
  block_lines out;
  out.table = table;
  out.block = block;
  out.lines = std::min(page_lines, s->committed - block * page_lines);
  const std::uint64_t line_bytes = backend_->info().page_bytes / static_cast<std::uint64_t>(page_lines);
  out.bytes.resize(line_bytes * static_cast<std::uint64_t>(out.lines));
  if (auto ok = backend_->read(page, out.lines, out.bytes); !ok) return std::unexpected(std::move(ok.error()));
  return out;
}

/// Makes a frame free when none is, from what nobody uses: the tenant with most pages gives it.
bool engine_impl::make_room() {
  if (sequences_.pool().free_frames() > 0) return true;
  tenant_account* most = nullptr;
  for (auto& [name, t] : tenants_)
    if (t.frames.idle > 0 && (most == nullptr || t.frames.frames > most->frames.frames)) most = &t;
  if (most == nullptr) return false;
  counters_.evicted_pages +=
      static_cast<std::uint64_t>(sequences_.evict(*most, 1) * sequences_.geometry().frame_pages());
  return true;
}

result<void> engine_impl::begin_import(sequence_id id, const std::string& tenant, sequence_state state) {
  const auto bad = [](std::string message) { return fail("invalid_request", std::move(message)); };
  if (sequences_.find(id) != nullptr) return bad("The new sequence exists already.");
  const auto tokens = static_cast<std::int64_t>(state.tokens.size());
  if (state.committed < 0 || state.committed > tokens || tokens >= backend_->info().max_position)
    return bad(fmt::format("{} lines of {} tokens cannot be imported.", state.committed, tokens));
  const auto mismatch = [](std::string message) { return fail("session_file_mismatch", std::move(message)); };
  const rotation& r = state.rotate;
  if (r != rotation{}) {
    if (options_.layout == cache_layout::left) return mismatch("A rotated history needs another layout than \"left\".");
    if (r.keep < 0 || r.ring < 1 || r.keep + r.ring != context_ / page_lines)
      return mismatch("The history was rotated within another context than this server's.");
  } else if (state.committed > context_) {
    return mismatch(fmt::format("{} lines do not fit this server's context of {}.", state.committed, context_));
  }
  for (const token_id token : state.tokens)
    if (token < 0 || token >= backend_->info().vocab) return bad("A token is not one of the model's vocabulary.");
  sequence& s = sequences_.create(id, account(tenant));
  s.tokens = std::move(state.tokens);
  s.committed = state.committed;
  s.rotate = r;
  s.importing = true;
  s.unvouched = true;
  return {};
}

result<void> engine_impl::import_block(sequence_id id, const block_lines& lines) {
  sequence* s = sequences_.find(id);
  if (s == nullptr || !s->importing) return not_found();
  const auto bad = [](const char* message) { return fail("invalid_request", message); };
  if (lines.table < 0 || lines.table >= sequences_.geometry().tables()) return bad("There is no such page table.");
  if (lines.block < 0 || lines.block >= blocks_for(s->committed)) return bad("The block is behind the last line.");
  if (lines.lines != std::min(page_lines, s->committed - lines.block * page_lines))
    return bad("The block has another number of lines than its place asks for.");
  std::vector<page_id> clear;
  page_id page = sequences_.import_page(*s, lines.table, lines.block, clear);
  if (page == no_page && sequences_.pool().free_frames() == 0 && make_room())
    page = sequences_.import_page(*s, lines.table, lines.block, clear);
  if (page == no_page) return fail("out_of_pages", "The cache is full and all of it in use; try again.");
  auto done = prepare({.clear = std::move(clear), .copies = {}, .at_stake = {}});
  if (done) done = backend_->write(page, lines.lines, lines.bytes);
  if (!done) release(id);
  return done;
}

result<void> engine_impl::end_import(sequence_id id) {
  sequence* s = sequences_.find(id);
  if (s == nullptr || !s->importing) return not_found();
  sequences_.end_import(*s);
  return {};
}

}  // namespace kvern::gpu
