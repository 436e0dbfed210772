#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "tests/support/golden.hpp"

/// Runs prompts through a backend in every way the rule "same bits" speaks of.
namespace kvern::test {

using tokens = std::vector<token_id>;
using on_logits = std::function<void(std::size_t prompt, std::int32_t position, std::span<const float> logits)>;

struct drive_options {
  unsigned seed = 1;
  std::int32_t max_chunk = 0;  ///< rows of a prompt in a step: random from 1 to this; 0: as many as fit
  bool together = false;       ///< all prompts in each step, else one after the other
  bool shuffle_pages = false;  ///< pages in random order, else ascending
  bool drop_lines = false;     ///< random tails of the rows are not accepted, and computed again
  std::int32_t from = 0;       ///< logits are wanted from this position on
};

template <class T>
T must(result<T> r) {
  if (!r) throw std::runtime_error(r.error().code + ": " + r.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

/// Computes all positions of all prompts; `seen` gets every row's logits, of recomputed rows again. The backend's pages
/// are all free before and after.
inline void drive(gpu::backend& b, const std::vector<tokens>& prompts, const drive_options& o, const on_logits& seen) {
  std::mt19937 random(o.seed);
  std::vector<gpu::page_id> free_pages(static_cast<std::size_t>(b.info().pages));
  std::iota(free_pages.rbegin(), free_pages.rend(), 0);
  if (o.shuffle_pages) std::shuffle(free_pages.begin(), free_pages.end(), random);
  // [table][block] of each prompt, filled as its rows come and emptied as blocks fall out of a table's window.
  std::vector<gpu::step_sequence> all(prompts.size());
  const std::vector<std::int32_t>& windows = b.info().windows;
  const auto for_pages = [&](std::size_t n, auto&& visit) {
    const std::size_t blocks = all[n].pages.size() / windows.size();
    for (std::size_t at = 0; at < all[n].pages.size(); ++at)
      visit(all[n].pages[at], windows[at / blocks], static_cast<std::int32_t>(at % blocks) * gpu::page_lines);
  };
  for (std::size_t n = 0; n < prompts.size(); ++n)
    all[n].pages.assign((prompts[n].size() + gpu::page_lines - 1) / gpu::page_lines * windows.size(), gpu::no_page);
  const auto take_pages = [&](std::size_t n, std::int32_t rows) {
    const std::int32_t end = all[n].committed + rows;
    for_pages(n, [&](gpu::page_id& page, std::int32_t, std::int32_t first) {
      if (page != gpu::no_page || first >= end || first + gpu::page_lines <= all[n].committed) return;
      if (free_pages.empty()) throw std::runtime_error("the prompts need more pages than the backend has");
      page = free_pages.back();
      free_pages.pop_back();
    });
  };
  const auto give_back_pages = [&](std::size_t n) {
    const bool done = all[n].committed == static_cast<std::int32_t>(prompts[n].size());
    for_pages(n, [&](gpu::page_id& page, std::int32_t window, std::int32_t first) {
      const bool needed = first + gpu::page_lines > gpu::visible({}, window, all[n].committed).first;
      if (page == gpu::no_page || (needed && !done)) return;
      free_pages.push_back(page);
      page = gpu::no_page;
    });
  };
  const auto left = [&](std::size_t n) { return static_cast<std::int32_t>(prompts[n].size()) - all[n].committed; };
  for (;;) {
    gpu::step s;
    std::vector<std::size_t> prompt_of;
    std::int32_t room = b.info().max_rows;
    for (std::size_t n = 0; n < prompts.size() && room > 0; ++n) {
      if (left(n) == 0) continue;
      std::int32_t rows = std::min(left(n), room);
      if (o.max_chunk > 0) rows = std::min(rows, static_cast<std::int32_t>(random() % o.max_chunk) + 1);
      for (std::int32_t r = 0; r < rows; ++r) {
        const std::int32_t position = all[n].committed + r;
        s.rows.push_back({.token = prompts[n][static_cast<std::size_t>(position)],
                          .position = position,
                          .sequence = static_cast<std::int32_t>(s.sequences.size()),
                          .logits = position >= o.from});
      }
      take_pages(n, rows);
      s.sequences.push_back(all[n]);
      prompt_of.push_back(n);
      room -= rows;
      if (!o.together) break;
    }
    if (s.rows.empty()) return;
    must(b.forward(s));
    for (std::size_t r = 0; r < s.rows.size(); ++r)
      if (s.rows[r].logits)
        seen(prompt_of[static_cast<std::size_t>(s.rows[r].sequence)], s.rows[r].position, b.logits(r));
    std::vector<std::int32_t> accepted;
    std::int32_t row = 0;
    for (std::size_t n = 0; n < s.sequences.size(); ++n) {
      const auto rows = static_cast<std::int32_t>(std::count_if(
          s.rows.begin(), s.rows.end(), [&](const auto& x) { return static_cast<std::size_t>(x.sequence) == n; }));
      const auto kept = o.drop_lines ? static_cast<std::int32_t>(random() % static_cast<unsigned>(rows + 1)) : rows;
      for (std::int32_t r = 0; r < kept; ++r) accepted.push_back(row + r);
      all[prompt_of[n]].committed += kept;
      row += rows;
    }
    must(b.finalize(accepted));
    for (const std::size_t n : prompt_of) give_back_pages(n);
  }
}

/// The logits of all positions from `o.from` on, [prompt][position - from][vocab]. Recomputed rows must repeat
/// themselves.
inline std::vector<std::vector<std::vector<float>>> all_logits(gpu::backend& b, const std::vector<tokens>& prompts,
                                                               const drive_options& o) {
  std::vector<std::vector<std::vector<float>>> result(prompts.size());
  for (std::size_t n = 0; n < prompts.size(); ++n)
    result[n].resize(std::max<std::size_t>(prompts[n].size(), static_cast<std::size_t>(o.from)) -
                     static_cast<std::size_t>(o.from));
  drive(b, prompts, o, [&](std::size_t n, std::int32_t position, std::span<const float> logits) {
    auto& slot = result[n][static_cast<std::size_t>(position - o.from)];
    if (!slot.empty() && !std::equal(slot.begin(), slot.end(), logits.begin(), logits.end()))
      throw std::runtime_error("a recomputed row differs");
    slot.assign(logits.begin(), logits.end());
  });
  return result;
}

inline token_id argmax(std::span<const float> logits) {
  return static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Greedy continuation: `each` gets the logits of every step, the prompt's last one first, and says whether to go on.
inline tokens greedy(gpu::backend& b, const tokens& prompt, int count,
                     const std::function<bool(std::span<const float>)>& each = {}) {
  gpu::step s;
  s.sequences.resize(1);
  const std::size_t room = prompt.size() + static_cast<std::size_t>(count);
  s.sequences[0].pages.resize((room + gpu::page_lines - 1) / gpu::page_lines * b.info().windows.size());
  std::iota(s.sequences[0].pages.begin(), s.sequences[0].pages.end(), 0);
  tokens fed = prompt;
  tokens made;
  while (static_cast<int>(made.size()) < count) {
    const std::int32_t committed = s.sequences[0].committed;
    const auto rows = std::min(b.info().max_rows, static_cast<std::int32_t>(fed.size()) - committed);
    s.rows.clear();
    for (std::int32_t r = 0; r < rows; ++r)
      s.rows.push_back({.token = fed[static_cast<std::size_t>(committed + r)],
                        .position = committed + r,
                        .sequence = 0,
                        .logits = committed + r + 1 == static_cast<std::int32_t>(fed.size())});
    must(b.forward(s));
    const std::span<const float> logits = b.logits(static_cast<std::size_t>(rows) - 1);
    if (!logits.empty()) {
      if (each && !each(logits)) break;
      made.push_back(argmax(logits));
      fed.push_back(made.back());
    }
    std::vector<std::int32_t> accepted(static_cast<std::size_t>(rows));
    std::iota(accepted.begin(), accepted.end(), 0);
    must(b.finalize(accepted));
    s.sequences[0].committed += rows;
  }
  return made;
}

inline std::unique_ptr<gpu::backend> load(const std::filesystem::path& path, const gpu::cpu::cpu_options& options) {
  return must(gpu::cpu::load_cpu_backend(must(gguf_file::open(path)), options));
}

/// Sets KVERN_ISA while it lives.
class narrowed_isa {
 public:
  explicit narrowed_isa(const char* name) {
    if (const char* before = std::getenv("KVERN_ISA")) before_ = before;
    setenv("KVERN_ISA", name, 1);
  }
  ~narrowed_isa() {
    if (before_)
      setenv("KVERN_ISA", before_->c_str(), 1);
    else
      unsetenv("KVERN_ISA");
  }
  narrowed_isa(const narrowed_isa&) = delete;
  narrowed_isa& operator=(const narrowed_isa&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace kvern::test
