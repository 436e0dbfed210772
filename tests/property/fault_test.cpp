// Histories find what they are for: each fault of a backend shows as a violation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/property/cpu_model.hpp"
#include "tests/property/faulty_backend.hpp"
#include "tests/property/history.hpp"

namespace kvern::gpu {
namespace {

constexpr std::uint64_t most_histories = 3 * round_size;

bool can_have(const combination& c, fault f) {
  if (f == fault::swapped_scales) return c.cache.type == line_type::int8;
  // Eager updates write all rows; none of them is seen before it is written again.
  return f != fault::committed_dropped_row || c.cache.update == cache_update::lazy;
}

using fault_case = std::tuple<fault, cache_layout>;

class histories : public testing::TestWithParam<fault_case> {};

TEST_P(histories, find_the_fault) {
  const auto [what, layout] = GetParam();
  int tried = 0;
  for (std::uint64_t number = 0; number < most_histories; ++number) {
    const combination c = combination_of(number);
    if (c.cache.layout != layout || !can_have(c, what)) continue;
    const auto alone = load_cold(c);
    auto b = load_tiny(c, 4, 0, number);
    bool happened = false;
    const read_layout lines = layout_of(b->info());
    b = std::make_unique<faulty_backend>(std::move(b), what, static_cast<int>(number % 2), lines, &happened);
    history run(number, std::move(b), *alone,
                {.engine = {.layout = layout, .max_running = 6, .max_queued_per_tenant = 6, .max_chunk = 50},
                 .lazy = c.cache.update == cache_update::lazy,
                 .lines = lines,
                 .longest_prompt = 300,
                 .sessions = 6,
                 .lines_are_checked_every = 5});
    const std::string violation = run.run(300);
    if (!happened) {
      ASSERT_EQ(violation, "") << "history " << number;
      continue;
    }
    ++tried;
    if (violation.empty()) continue;
    fmt::print("history {} ({}), {} tried: {}\n", number, to_string(c), tried, violation);
    return;
  }
  ADD_FAILURE() << "not found in " << tried << " histories";
}

INSTANTIATE_TEST_SUITE_P(of_a_backend, histories,
                         testing::Combine(testing::ValuesIn(all_faults),
                                          testing::Values(cache_layout::paged, cache_layout::left, cache_layout::ring)),
                         [](const auto& i) {
                           return fmt::format("{}_{}", to_string(std::get<0>(i.param)),
                                              to_string(std::get<1>(i.param)));
                         });

}  // namespace
}  // namespace kvern::gpu
