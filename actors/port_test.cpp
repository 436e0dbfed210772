#include "actors/port.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace kvern::actors {
namespace {

struct answers {
  std::vector<result<int>> got;
  port<int> make() {
    return port<int>([this](result<int> r) { got.push_back(std::move(r)); });
  }
};

TEST(port, the_first_answer_counts) {
  answers a;
  {
    auto p = a.make();
    p.answer(1);
    p.answer(2);
  }
  ASSERT_EQ(a.got.size(), 1u);
  EXPECT_EQ(a.got[0], 1);
}

TEST(port, a_dropped_port_answers) {
  answers a;
  {
    auto p = a.make();
    auto moved = std::move(p);
  }
  ASSERT_EQ(a.got.size(), 1u);
  EXPECT_EQ(a.got[0].error().code, "shutting_down");
}

TEST(port, a_throwing_caller_is_contained) {
  port<int> p([](result<int>) { throw std::runtime_error("no"); });
  p.answer(1);
}

TEST(parcel, is_copyable_and_taken_once) {
  answers a;
  parcel<port<int>> sent(a.make());
  auto copy = sent;
  copy.take().answer(5);
  ASSERT_EQ(a.got.size(), 1u);
  EXPECT_EQ(a.got[0], 5);
}

TEST(parcel, dropped_unopened_drops_what_is_in_it) {
  answers a;
  { parcel<port<int>> sent(a.make()); }
  EXPECT_EQ(a.got.size(), 1u);
}

}  // namespace
}  // namespace kvern::actors
