// Real models (models/NAME.gguf) through the engine: however the cache is laid out, the same tokens with the same
// log-probabilities, to the bit.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/cpu/test_drive.hpp"
#include "gpu/engine/engine.hpp"

namespace kvern::gpu::cpu {
namespace {

namespace json = boost::json;

constexpr std::int32_t context = 640;
constexpr turn_id rotating = 100;

struct answer {
  std::vector<token_id> tokens;
  std::vector<std::tuple<double, std::vector<std::pair<token_id, double>>>> logprobs;
  finish_reason reason = finish_reason::failed;

  friend bool operator==(const answer&, const answer&) = default;
};
using answers = std::map<turn_id, answer>;

/// All turns at once, each in a sequence of its own.
answers run(const std::filesystem::path& model, const cache_options& cache, const std::vector<turn>& turns) {
  // Room for all of them in every layout.
  auto b = test::load(model, {.context = context, .kv_memory = std::uint64_t{1} << 30, .cache = cache});
  const auto e = test::must(engine::create(std::move(b), {.layout = cache.layout}));
  answers out;
  for (const turn& t : turns) {
    if (t.id == rotating && cache.layout == cache_layout::left) continue;
    test::must(e->submit(t));
  }
  std::vector<turn_output> outputs;
  while (!e->idle()) e->step(outputs);
  for (const turn_output& o : outputs) {
    answer& a = out[o.id];
    if (const auto* t = std::get_if<turn_token>(&o.what)) {
      a.tokens.push_back(t->token);
      a.logprobs.emplace_back(t->logprob.logprob, t->logprob.alternatives);
    } else if (const auto* end = std::get_if<turn_ended>(&o.what)) {
      a.reason = end->reason;
      EXPECT_EQ(end->forgotten > 0, o.id == rotating);
    }
  }
  return out;
}

turn make_turn(turn_id id, std::vector<token_id> prompt, std::int64_t max_tokens) {
  turn t;
  t.id = id;
  t.sequence = id;
  t.tenant = "golden";
  t.prompt = std::move(prompt);
  t.max_tokens = max_tokens;
  t.ignore_eos = true;
  t.logprobs = 3;
  t.sampling.temperature = 0;
  return t;
}

class golden_cache : public testing::TestWithParam<std::tuple<const char*, std::int32_t>> {};

TEST_P(golden_cache, answers_do_not_depend_on_how_lines_lie) {
  const auto& [name, most_shards] = GetParam();
  const auto model = test::fetched_model(name);
  if (!model) GTEST_SKIP() << "models/" << name << ".gguf is not here";
  const auto greedy = test::golden(fmt::format("greedy/{}.jsonl", name));
  ASSERT_TRUE(greedy);
  std::vector<turn> turns;
  std::vector<token_id> together;
  for (const std::string& line : test::read_lines(*greedy)) {
    if (line.empty()) continue;
    const auto prompt = json::value_to<test::tokens>(json::parse(line).at("prompt_ids"));
    if (turns.size() < 4) turns.push_back(make_turn(turns.size() + 1, prompt, 20));
    together.insert(together.end(), prompt.begin(), prompt.end());
  }
  // Longer than a window of 512, and, with its answer, than the context.
  while (together.size() < context - 8) together.insert(together.end(), together.begin(), together.end());
  together.resize(context - 8);
  turns.push_back(make_turn(99, together, 8));
  turns.push_back(make_turn(rotating, together, 20));
  turns.back().tenant = "another";
  turns.back().overflow = overflow_policy::rotate;
  turns.back().rotate_keep = page_lines;

  const answers expected = run(*model, {}, turns);
  ASSERT_EQ(expected.size(), turns.size());
  for (const turn& t : turns) {
    EXPECT_EQ(expected.at(t.id).reason, finish_reason::length);
    EXPECT_EQ(expected.at(t.id).tokens.size(), static_cast<std::size_t>(t.max_tokens));
  }
  std::vector<cache_options> ways;
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left, cache_layout::ring})
    for (const cache_update update : {cache_update::lazy, cache_update::eager})
      ways.push_back({.layout = layout, .update = update});
  ways.push_back({.stacked = false});
  ways.push_back({.stage_stacked = false});
  ways.push_back({.layout = cache_layout::ring, .stacked = false, .stage_stacked = false});
  for (std::int32_t shards = 2; shards <= most_shards; ++shards) ways.push_back({.shards = shards});
  for (const cache_options& way : ways) {
    const answers got = run(*model, way, turns);
    EXPECT_EQ(got.size(), turns.size() - (way.layout == cache_layout::left ? 1 : 0));
    for (const auto& [id, a] : got)
      EXPECT_TRUE(a == expected.at(id)) << to_string(way.layout) << " " << to_string(way.update) << " stacked "
                                        << way.stacked << way.stage_stacked << " shards " << way.shards << " turn "
                                        << id;
  }
}

INSTANTIATE_TEST_SUITE_P(real, golden_cache, testing::Values(std::tuple{"smollm2", 3}, std::tuple{"gemma3", 1}),
                         [](const auto& i) { return std::string(std::get<0>(i.param)); });

}  // namespace
}  // namespace kvern::gpu::cpu
