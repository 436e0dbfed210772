#include "model/chat/search.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kvern::chat {
namespace {

using enum searcher::direction;

TEST(searcher, finds_what_trying_every_place_finds) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto text_of = [&](std::size_t size) {
    std::string s(size, 'a');
    for (char& c : s) c = random() % 16 == 0 ? 'b' : 'a';
    return s;
  };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    runtime rt({}, 1);
    const std::string in = text_of(random() % 600);
    std::string needle = text_of(random() % 150);
    if (in.size() > 150 && round % 2 == 0) needle = in.substr(random() % (in.size() - 150), random() % 150);
    const std::size_t from = random() % (in.size() + 2);
    const searcher ahead(rt, needle);
    EXPECT_EQ(ahead.find(in, from), in.find(needle, from)) << in << " " << needle << " " << from;
    EXPECT_EQ(searcher(rt, needle, backward).rfind(in), in.rfind(needle)) << in << " " << needle;
    found += needle.size() > 64 && in.find(needle) != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(found, 100);
}

TEST(searcher, is_paid_for) {
  render_limits limits;
  limits.memory_bytes = 1000;
  runtime rt(limits, 1);
  const std::string needle(1000, 'a');
  EXPECT_THROW(searcher(rt, needle), template_failure);
}

}  // namespace
}  // namespace kvern::chat
