#include "ipc/overflow_fields.hpp"

#include <gtest/gtest.h>

#include "ipc/completion_request.hpp"

namespace kvern::ipc {
namespace {

using gpu::overflow_policy;

parsed<completion_request> parse(std::string more) {
  model_info model;
  model.id = "tiny";
  model.vocab = 100;
  model.context = 1000;
  return parse_completion(completion_kind::text, R"({"prompt":"x")" + more + "}", model);
}

std::string wrong_field(std::string more) {
  const auto request = parse(std::move(more));
  return request ? "none" : request.error().param;
}

TEST(overflow_fields, are_left_to_the_session_when_absent) {
  const auto request = parse("");
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->common.overflow);
  EXPECT_FALSE(request->common.keep);
  EXPECT_EQ(request->common.exclude_tail, 0);
}

TEST(overflow_fields, are_read) {
  EXPECT_EQ(parse(R"(,"overflow":"error")")->common.overflow, overflow_policy::error);
  EXPECT_EQ(parse(R"(,"overflow":"stop")")->common.overflow, overflow_policy::stop);
  const auto rotates = parse(R"(,"overflow":"rotate","keep":40,"cache_exclude_tail":7)");
  ASSERT_TRUE(rotates);
  EXPECT_EQ(rotates->common.overflow, overflow_policy::rotate);
  EXPECT_EQ(rotates->common.keep, 40);
  EXPECT_EQ(rotates->common.exclude_tail, 7);
  EXPECT_EQ(parse(R"(,"session":"s-1","keep":3)")->common.keep, 3);
}

TEST(overflow_fields, are_refused_by_name) {
  for (const char* bad : {R"("")", R"("Rotate")", "3", "true", "[]"}) {
    EXPECT_EQ(wrong_field(std::string(R"(,"overflow":)") + bad), "overflow") << bad;
  }
  EXPECT_EQ(wrong_field(R"(,"keep":3)"), "keep");
  EXPECT_EQ(wrong_field(R"(,"keep":3,"overflow":"stop")"), "keep");
  EXPECT_EQ(wrong_field(R"(,"session":"s-1","keep":3,"overflow":"error")"), "keep");
  EXPECT_EQ(wrong_field(R"(,"keep":-1,"overflow":"rotate")"), "keep");
  EXPECT_EQ(wrong_field(R"(,"keep":1.5,"overflow":"rotate")"), "keep");
  EXPECT_EQ(wrong_field(R"(,"cache_exclude_tail":-1)"), "cache_exclude_tail");
  EXPECT_EQ(wrong_field(R"(,"cache_exclude_tail":"2")"), "cache_exclude_tail");
}

TEST(overflow_fields, bound_what_a_rotating_answer_may_grow_to) {
  EXPECT_EQ(wrong_field(R"(,"max_tokens":9000000000000000000)"), "none");  // the context bounds it
  EXPECT_EQ(wrong_field(R"(,"max_tokens":9000000000000000000,"overflow":"rotate")"), "max_tokens");
  EXPECT_EQ(wrong_field(R"(,"max_tokens":9000000000000000000,"overflow":"rotate","stream":true)"), "none");
  EXPECT_EQ(wrong_field(R"(,"overflow":"rotate")"), "none");
}

}  // namespace
}  // namespace kvern::ipc
