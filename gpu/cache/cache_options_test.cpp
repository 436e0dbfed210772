#include "gpu/cache/cache_options.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace kvern::gpu {
namespace {

TEST(cache_options, names_are_those_of_the_enumerators_and_are_read_back) {
  EXPECT_EQ(to_string(line_type::bf16), "bf16");
  EXPECT_EQ(to_string(scale_span::line), "line");
  EXPECT_EQ(to_string(cache_layout::ring), "ring");
  EXPECT_EQ(to_string(cache_update::eager), "eager");
  for (const auto type : {line_type::f32, line_type::f16, line_type::bf16, line_type::int8})
    EXPECT_EQ(parse_line_type(to_string(type)), type);
  for (const auto span : {scale_span::group, scale_span::head, scale_span::line})
    EXPECT_EQ(parse_scale_span(to_string(span)), span);
  for (const auto layout : {cache_layout::paged, cache_layout::left, cache_layout::ring})
    EXPECT_EQ(parse_cache_layout(to_string(layout)), layout);
  for (const auto update : {cache_update::lazy, cache_update::eager})
    EXPECT_EQ(parse_cache_update(to_string(update)), update);
}

TEST(cache_options, other_names_are_none) {
  for (const char* name : {"", "F16", "f16 ", "q8_0", "paged,ring"}) {
    EXPECT_EQ(parse_line_type(name), std::nullopt);
    EXPECT_EQ(parse_scale_span(name), std::nullopt);
    EXPECT_EQ(parse_cache_layout(name), std::nullopt);
    EXPECT_EQ(parse_cache_update(name), std::nullopt);
  }
}

TEST(cache_options, a_shard_holds_at_least_one_head) {
  EXPECT_TRUE(validate({}, 1));
  EXPECT_TRUE(validate({.shards = 3}, 3));
  for (const std::int32_t bad : {0, -1, 4, std::numeric_limits<std::int32_t>::max()}) {
    const auto checked = validate({.shards = bad}, 3);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, "invalid_cache_options");
    EXPECT_NE(checked.error().message.find("1 to 3"), std::string::npos);
  }
}

TEST(cache_options, one_scale_for_all_heads_needs_all_heads_in_one_place) {
  EXPECT_TRUE(validate({.type = line_type::int8, .scale = scale_span::line}, 4));
  EXPECT_TRUE(validate({.type = line_type::int8, .scale = scale_span::head, .shards = 2}, 4));
  const auto checked = validate({.type = line_type::int8, .scale = scale_span::line, .shards = 2}, 4);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, "invalid_cache_options");
}

TEST(cache_options, all_else_goes_together) {
  for (const auto layout : {cache_layout::paged, cache_layout::left, cache_layout::ring})
    for (const auto update : {cache_update::lazy, cache_update::eager})
      for (const bool stacked : {true, false})
        for (const bool stage_stacked : {true, false})
          for (const auto type : {line_type::f32, line_type::f16, line_type::bf16, line_type::int8})
            EXPECT_TRUE(validate({.layout = layout,
                                  .update = update,
                                  .stacked = stacked,
                                  .stage_stacked = stage_stacked,
                                  .type = type,
                                  .shards = 2},
                                 2));
}

}  // namespace
}  // namespace kvern::gpu
