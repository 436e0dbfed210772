// Random histories of an engine on the fake backend, checked against a cold model that computes each turn alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "gpu/engine/fake_backend.hpp"
#include "tests/property/faulty_backend.hpp"
#include "tests/property/history.hpp"
#include "tests/property/seeds.hpp"

namespace kvern::gpu {
namespace {

constexpr read_layout fake_lines{.value_bytes = sizeof(std::uint64_t)};

class cold_fake final : public cold_model {
 public:
  explicit cold_fake(const fake_backend::shape& shape) : shape_(shape) {}

  std::unique_ptr<cold_sequence> begin(const rotation& rotate) override {
    return std::make_unique<hashed>(shape_, rotate);
  }

 private:
  class hashed final : public cold_sequence {
   public:
    hashed(const fake_backend::shape& shape, const rotation& rotate) : shape_(shape), alone_(shape.windows, rotate) {}

    void extend(std::span<const token_id> tokens) override {
      for (const token_id token : tokens) alone_.append(token);
      logits_ = fake_backend::logits_of(alone_.state(), shape_.vocab);
    }
    std::span<const float> logits() const override { return logits_; }
    void read(std::int32_t table, std::int32_t block, std::int32_t, std::span<std::byte> out) const override {
      const auto& lines = alone_.lines()[static_cast<std::size_t>(table)];
      std::memcpy(out.data(), &lines[static_cast<std::size_t>(block * page_lines)], out.size());
    }

   private:
    const fake_backend::shape& shape_;
    fake_backend::alone alone_;
    std::vector<float> logits_;
  };

  fake_backend::shape shape_;
};

struct scenario {
  const char* name;
  fake_backend::shape shape;
  engine_options options;
  int operations;
};

std::vector<scenario> scenarios() {
  std::vector<scenario> all;
  const auto add = [&](const char* name, fake_backend::shape shape, engine_options options, int operations) {
    all.push_back({name, std::move(shape), std::move(options), operations});
  };
  const engine_options busy{.max_running = 6, .max_queued_per_tenant = 6, .max_chunk = 50};
  add("page_pressure", {.vocab = 48, .context = 200, .pages = 13, .max_rows = 60}, busy, 1500);
  add("slot_pressure", {.vocab = 48, .context = 300, .pages = 400, .max_rows = 33},
      {.max_running = 3, .max_queued_per_tenant = 3, .max_chunk = 500}, 1000);
  add("one_context", {.vocab = 48, .context = 128, .pages = 4, .max_rows = 16},
      {.max_running = 8, .max_queued_per_tenant = 6, .max_chunk = 16}, 1000);
  const fake_backend::shape windows{.vocab = 48, .context = 260, .pages = 60, .max_rows = 60, .windows = {0, 40, 40}};
  add("windows", windows, busy, 1200);
  add("windows_only", {.vocab = 48, .context = 260, .pages = 20, .max_rows = 60, .windows = {70}}, busy, 1000);
  engine_options dense = busy;
  for (const auto& [layout, name, windowed] :
       {std::tuple{cache_layout::left, "left", "left_windows"}, {cache_layout::ring, "ring", "ring_windows"}}) {
    dense.layout = layout;
    add(name, {.vocab = 48, .context = 130, .pages = 5 * 7, .max_rows = 60}, dense, 1200);
    add(windowed, {.vocab = 48, .context = 128, .pages = 3 * 4 * 5, .max_rows = 60, .windows = {0, 40, 40}}, dense,
        1000);
  }
  return all;
}

class EngineHistory : public testing::TestWithParam<scenario> {};

TEST_P(EngineHistory, IsEqualToColdRuns) {
  const scenario& s = GetParam();
  const std::uint64_t first = number_from("KVERN_SEED", 1);
  std::uint64_t reused = 0;
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;
  for (std::uint64_t seed = first; seed < first + number_from("KVERN_HISTORIES", 6) && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("KVERN_SEED={}", seed));
    cold_fake alone(s.shape);
    history run(seed, std::make_unique<fake_backend>(s.shape), alone, {.engine = s.options, .lines = fake_lines});
    EXPECT_EQ(run.run(s.operations), "");
    const engine_stats stats = run.stats();
    fmt::print(
        "{} seed {}: {} turns, {} steps, {} preempted, {} pages evicted, {} copied, {} reused, {} shared, {} forks, "
        "{} rotated, {} failed, {} of {} drafted tokens accepted\n",
        s.name, seed, run.finished(), stats.steps, stats.preempted_turns, stats.evicted_pages, stats.copied_pages,
        stats.reused_tokens, stats.shared_tokens, run.forks(), run.rotated(), stats.failed_turns, stats.accepted_tokens,
        stats.drafted_tokens);
    reused += stats.reused_tokens;
    accepted += stats.accepted_tokens;
    rejected += stats.drafted_tokens - stats.accepted_tokens;
  }
  EXPECT_GT(reused, 0U);
  EXPECT_GT(accepted, 0U);
  EXPECT_GT(rejected, 0U);
}

TEST_P(EngineHistory, FindsAFaultOfTheBackend) {
  const scenario& s = GetParam();
  for (const fault what : all_faults) {
    if (what == fault::swapped_scales) continue;
    std::string violation;
    for (std::uint64_t seed = 1; seed <= 20 && violation.empty(); ++seed) {
      bool happened = false;
      auto b =
          std::make_unique<faulty_backend>(std::make_unique<fake_backend>(s.shape), what, 0, fake_lines, &happened);
      cold_fake alone(s.shape);
      violation = history(seed, std::move(b), alone, {.engine = s.options, .lines = fake_lines}).run(300);
      ASSERT_TRUE(happened || violation.empty()) << violation;
    }
    EXPECT_NE(violation, "") << to_string(what);
  }
}

INSTANTIATE_TEST_SUITE_P(Cache, EngineHistory, testing::ValuesIn(scenarios()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace kvern::gpu
