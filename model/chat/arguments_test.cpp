#include "model/chat/arguments.hpp"

#include <gtest/gtest.h>

namespace kvern::chat {
namespace {

val number(int i) { return val::of(static_cast<wide>(i)); }

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const template_failure& e) {
    return e.code;
  }
  return "";
}

TEST(arguments, are_bound_by_place_and_name) {
  arguments args{{number(1)}, {{"c", number(3)}}};
  const bound b("f", args, {"a", "b", "c"}, 1);
  EXPECT_EQ(b.integer(0, 9), 1);
  EXPECT_FALSE(b.has(1));
  EXPECT_EQ(b.integer(1, 9), 9);
  EXPECT_EQ(b.integer(2, 9), 3);
}

TEST(arguments, that_do_not_fit_are_type_errors) {
  const auto bind = [](arguments args, std::size_t required) {
    return code_of([&] { bound("f", args, {"a"}, required); });
  };
  EXPECT_EQ(bind({{number(1), number(2)}, {}}, 0), "template_type");
  EXPECT_EQ(bind({{}, {{"z", number(1)}}}, 0), "template_type");
  EXPECT_EQ(bind({{number(1)}, {{"a", number(1)}}}, 0), "template_type");
  EXPECT_EQ(bind({}, 1), "template_type");
  EXPECT_EQ(bind({}, 0), "");
}

TEST(arguments, indices_are_integers_of_64_bits) {
  EXPECT_EQ(index_of(val::of(true)), 1);
  EXPECT_EQ(code_of([] { index_of(val::of(1.0)); }), "template_type");
  EXPECT_EQ(code_of([] { index_of(val::of(static_cast<wide>(1) << 100)); }), "template_limit");
  const undefined_info missing{"'x' is undefined", false};
  EXPECT_EQ(code_of([&] { index_of(val::undefined(&missing)); }), "template_undefined");
}

}  // namespace
}  // namespace kvern::chat
