#include "ipc/completion_format.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <limits>
#include <vector>

namespace kvern::ipc {
namespace {

using boost::json::serialize;

TEST(completion_format, writes_envelopes) {
  EXPECT_EQ(serialize(envelope({"cmpl-1", 7, "tiny"}, "text_completion")),
            R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"tiny"})");
}

TEST(completion_format, writes_cache_reports) {
  EXPECT_EQ(serialize(to_json(cache_report{3, 4, cache_reason::mismatch, 3, 1})),
            R"({"reused":3,"shared":1,"computed":4,"reason":"mismatch","first_divergence":3})");
  EXPECT_EQ(serialize(to_json(cache_report{})),
            R"({"reused":0,"shared":0,"computed":0,"reason":"empty","first_divergence":null})");
}

TEST(completion_format, writes_timings_without_dividing_by_nothing) {
  end_event end;
  end.completion_tokens = 11;
  end.queued_ms = 1;
  end.prompt_ms = 500;
  end.generate_ms = 2000;
  auto o = timings(end, 100);
  EXPECT_EQ(o["queued_ms"].as_double(), 1);
  EXPECT_EQ(o["prompt_tokens_per_second"].as_double(), 200);
  EXPECT_EQ(o["generate_tokens_per_second"].as_double(), 5);

  end.prompt_ms = 0;
  end.generate_ms = std::numeric_limits<double>::quiet_NaN();
  o = timings(end, 100);
  EXPECT_EQ(o["prompt_tokens_per_second"].as_double(), 0);
  EXPECT_EQ(o["generate_tokens_per_second"].as_double(), 0);
  EXPECT_EQ(o["generate_ms"].as_double(), 0);
}

TEST(completion_format, writes_usage) {
  EXPECT_EQ(serialize(to_json(token_usage{.prompt = 5, .completion = 2, .cached = 3, .drafted = 9, .accepted = 4})),
            R"({"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":3},)"
            R"("completion_tokens_details":{"accepted_prediction_tokens":4,"rejected_prediction_tokens":5}})");
  EXPECT_EQ(serialize(to_json(std::vector<token_id>{1, 2})), "[1,2]");
}

TEST(completion_format, names_finish_reasons_and_stop_strings) {
  EXPECT_EQ(name_of(gpu::finish_reason::length), "length");
  EXPECT_EQ(name_of(gpu::finish_reason::stop), "stop");
  end_event end;
  EXPECT_FALSE(extension({}, end).contains("stop_string"));
  end.stop_string = "END";
  EXPECT_EQ(extension({}, end).at("stop_string"), "END");
}

TEST(completion_format, tells_of_a_full_context) {
  end_event end;
  EXPECT_FALSE(extension({}, end).contains("overflow"));
  end.overflow = overflow_report{};
  EXPECT_EQ(serialize(extension({}, end).at("overflow")), R"({"policy":"stop"})");
  end.overflow = overflow_report{gpu::overflow_policy::rotate, 64, 96};
  EXPECT_EQ(serialize(extension({}, end).at("overflow")), R"({"policy":"rotate","keep":64,"forgotten":96})");
}

}  // namespace
}  // namespace kvern::ipc
