#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gpu/engine/engine.hpp"
#include "gpu/engine/engine_impl.hpp"
#include "gpu/engine/fake_backend.hpp"

namespace kvern::gpu {

inline std::string kind(const turn_output& o) {
  if (const auto* s = std::get_if<turn_started>(&o.what)) return "started " + std::to_string(s->reused);
  if (const auto* p = std::get_if<turn_progress>(&o.what))
    return "progress " + std::to_string(p->processed) + "/" + std::to_string(p->total);
  return std::holds_alternative<turn_token>(o.what) ? "token" : "ended";
}

/// An engine on a fake backend, with a clock that a forward moves by `cost`.
struct harness {
  explicit harness(fake_backend::shape shape = {}, engine_options options = {}) : vocab(shape.vocab) {
    auto b = std::make_unique<fake_backend>(shape);
    backend = b.get();
    if (!options.is_end) options.is_end = [](token_id) { return false; };
    options.now = [this] { return now; };
    // The clock moves in finalize, which every forward that succeeds is followed by.
    backend->on_finalize = [this](std::span<const std::int32_t> rows_in) -> result<void> {
      accepted = static_cast<std::int32_t>(rows_in.size());
      advance(cost(rows));
      return {};
    };
    e = std::make_unique<engine_impl>(std::move(b), std::move(options), 1);
  }

  static double cost(std::int32_t n) { return 5 + 0.25 * n; }
  void advance(double ms) {
    now +=
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double, std::milli>(ms));
  }

  std::vector<token_id> prompt(std::size_t size, std::uint64_t salt = 0) const {
    std::vector<token_id> out;
    for (std::size_t i = 0; i < size; ++i)
      out.push_back(static_cast<token_id>((i * 7 + salt * 13 + i * i % 11) % static_cast<std::size_t>(vocab)));
    return out;
  }

  /// A greedy turn.
  static turn make(turn_id id, sequence_id s, std::string tenant, std::vector<token_id> prompt,
                   std::int64_t max_tokens) {
    turn t;
    t.id = id;
    t.sequence = s;
    t.tenant = std::move(tenant);
    t.prompt = std::move(prompt);
    t.max_tokens = max_tokens;
    t.sampling.temperature = 0;
    return t;
  }

  /// One short turn, so that the engine has seen what a step costs.
  void warm_up() {
    submit(make(1 << 20, 1 << 20, "warm", prompt(32), 1));
    run();
    e->release(1 << 20);
  }

  /// What a greedy turn answers, computed without an engine.
  std::vector<token_id> reference(std::vector<token_id> tokens, std::size_t count) const {
    std::vector<token_id> out;
    for (std::size_t i = 0; i < count; ++i) {
      const auto logits = fake_backend::logits_of(fake_backend::state_of(tokens), vocab);
      std::size_t best = 0;
      for (std::size_t j = 1; j < logits.size(); ++j)
        if (logits[j] > logits[best]) best = j;
      out.push_back(static_cast<token_id>(best));
      tokens.push_back(out.back());
    }
    return out;
  }

  void submit(turn t) {
    const auto ok = e->submit(std::move(t));
    ASSERT_TRUE(ok) << ok.error().message;
  }
  void step() {
    const std::size_t before = outputs.size();
    auto hook = backend->on_forward;
    backend->on_forward = [this, hook](const gpu::step& s) -> result<void> {
      rows = static_cast<std::int32_t>(s.rows.size());
      return hook ? hook(s) : result<void>{};
    };
    e->step(outputs);
    backend->on_forward = hook;
    last_outputs = outputs.size() - before;
  }
  void run() {
    for (int i = 0; i < 100000 && !e->idle(); ++i) step();
    ASSERT_TRUE(e->idle()) << "the engine does not come to an end";
  }

  template <class T>
  std::vector<T> all(turn_id id) const {
    std::vector<T> out;
    for (const turn_output& o : outputs)
      if (o.id == id && std::holds_alternative<T>(o.what)) out.push_back(std::get<T>(o.what));
    return out;
  }
  std::vector<token_id> tokens(turn_id id) const {
    std::vector<token_id> out;
    for (const turn_token& t : all<turn_token>(id)) out.push_back(t.token);
    return out;
  }
  turn_started started(turn_id id) const {
    const auto found = all<turn_started>(id);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? turn_started{-1} : found.front();
  }
  turn_ended ended(turn_id id) const {
    const auto found = all<turn_ended>(id);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? turn_ended{} : found.front();
  }

  std::int32_t vocab;
  fake_backend* backend = nullptr;
  std::chrono::steady_clock::time_point now{};
  std::int32_t rows = 0;      ///< of the last forward
  std::int32_t accepted = 0;  ///< rows of the last finalize
  std::vector<turn_output> outputs;
  std::size_t last_outputs = 0;
  std::unique_ptr<engine_impl> e;
};

inline const fake_backend::shape windowed{.context = 512, .pages = 60, .windows = {0, 64, 64}};

/// A turn that keeps all its sequence has.
inline turn next_turn(const harness& h, turn_id id, sequence_id s, std::vector<token_id> prompt,
                      std::int64_t max_tokens) {
  turn t = h.make(id, s, "a", std::move(prompt), max_tokens);
  t.keep = static_cast<std::int64_t>(t.prompt.size());
  return t;
}

inline std::vector<token_id> joined(std::vector<token_id> a, const std::vector<token_id>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A greedy answer of a cold sequence, with windows and rotation.
inline std::vector<token_id> cold_answer(const fake_backend::shape& shape, const rotation& r,
                                         std::span<const token_id> prompt, std::size_t count) {
  fake_backend::alone cold(shape.windows, r);
  for (const token_id t : prompt) cold.append(t);
  std::vector<token_id> out;
  while (out.size() < count) {
    const auto logits = fake_backend::logits_of(cold.state(), shape.vocab);
    out.push_back(static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    cold.append(out.back());
  }
  return out;
}

}  // namespace kvern::gpu
