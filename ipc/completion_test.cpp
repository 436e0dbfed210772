#include "ipc/completion.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "ipc/fake_service.hpp"
#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

const completion_head head{"id-1", 7, "tiny"};

text_event text(std::string s, token_id id = 65) {
  text_event e{s, {}};
  e.tokens.push_back({id, std::move(s), {-0.5, {{id, -0.5}, {66, -1.0}}}});
  return e;
}

started_event started(std::int64_t reused = 0) {
  return {{1, 2, 3, 4}, {reused, 4 - reused, reused > 0 ? cache_reason::extends : cache_reason::empty, std::nullopt}};
}

end_event ended(std::int64_t tokens, gpu::finish_reason reason = gpu::finish_reason::stop) {
  end_event e;
  e.reason = reason;
  e.prompt_tokens = 4;
  e.completion_tokens = tokens;
  return e;
}

class completion_of_kind : public ::testing::Test {
 protected:
  completion make(completion_kind kind, bool stream, std::int32_t n = 1) {
    request_.kind = kind;
    request_.stream = stream;
    request_.n = n;
    request_.prompts.resize(1);
    return completion(request_, head, service_);
  }
  static std::vector<json::value> parsed_events(completion& c) {
    std::vector<json::value> all;
    for (const std::string& e : events_of(c.take_frames()))
      all.push_back(e == "[DONE]" ? json::value(e) : json::parse(e));
    return all;
  }

  completion_request request_;
  fake_service service_;
};

TEST_F(completion_of_kind, chat_streams_in_openai_s_shape) {
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started(3));
  EXPECT_EQ(c.take_frames(), "");
  c.on_event(0, text("Hi"));
  c.on_event(0, text("!"));
  c.on_event(0, ended(2, gpu::finish_reason::length));
  EXPECT_TRUE(c.finished());
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 5u);
  EXPECT_EQ(json::serialize(e[0]),
            R"({"id":"id-1","object":"chat.completion.chunk","created":7,"model":"tiny","choices":[{"index":0,)"
            R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(json::serialize(e[1].at("choices")),
            R"([{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}])");
  EXPECT_EQ(e[2].at("id"), "id-1");
  EXPECT_EQ(json::serialize(e[3].at("choices")),
            R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}])");
  EXPECT_EQ(e[3].at("kvern").at("cache").at("reused").as_int64(), 3);
  EXPECT_EQ(e[3].at("kvern").at("cache").at("reason"), "extends");
  EXPECT_TRUE(e[3].at("kvern").at("timings").is_object());
  EXPECT_EQ(e[4], "[DONE]");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FALSE(e[i].as_object().contains("usage"));
}

TEST_F(completion_of_kind, usage_comes_once_at_the_end_and_is_null_before) {
  request_.include_usage = true;
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started(3));
  c.on_event(0, text("Hi"));
  c.on_event(0, ended(1));
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 5u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(e[i].at("usage").is_null());
  EXPECT_TRUE(e[3].at("choices").as_array().empty());
  EXPECT_EQ(e[3].at("object"), "chat.completion.chunk");
  EXPECT_EQ(json::serialize(e[3].at("usage")),
            R"({"prompt_tokens":4,"completion_tokens":1,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":3},)"
            R"("completion_tokens_details":{"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}})");
}

TEST_F(completion_of_kind, progress_goes_from_0_to_100_before_the_text) {
  request_.include_progress = true;
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started(2));
  auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(json::serialize(e[0].at("kvern").at("progress")), R"({"processed":0,"total":4,"percent":0})");
  EXPECT_TRUE(e[0].at("choices").as_array().empty());
  c.on_event(0, progress_event{3, 4});
  c.on_event(0, progress_event{3, 4});
  e = parsed_events(c);
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].at("kvern").at("progress").at("percent").as_int64(), 75);
  c.on_event(0, text("x"));
  c.on_event(0, progress_event{4, 4});
  e = parsed_events(c);
  ASSERT_EQ(e.size(), 3u);
  EXPECT_EQ(e[0].at("kvern").at("progress").at("percent").as_int64(), 100);
  EXPECT_EQ(e[1].at("choices").at(0).at("delta").at("role"), "assistant");
}

TEST_F(completion_of_kind, progress_is_not_sent_unasked) {
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started());
  c.on_event(0, progress_event{3, 4});
  EXPECT_EQ(c.take_frames(), "");
}

TEST_F(completion_of_kind, text_streams_in_openai_s_shape) {
  request_.return_token_ids = true;
  request_.common.logprobs = 1;
  completion c = make(completion_kind::text, true);
  c.on_event(0, started());
  c.on_event(0, text("A"));
  c.on_event(0, text("\xC3\xBC", 70));
  c.on_event(0, ended(2));
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 5u);
  EXPECT_EQ(e[0].at("object"), "text_completion");
  EXPECT_EQ(json::serialize(e[0].at("choices").at(0).at("prompt_token_ids")), "[1,2,3,4]");
  EXPECT_EQ(e[1].at("choices").at(0).at("text"), "A");
  EXPECT_EQ(json::serialize(e[1].at("choices").at(0).at("token_ids")), "[65]");
  EXPECT_EQ(json::serialize(e[1].at("choices").at(0).at("logprobs")),
            R"({"tokens":["A"],"token_logprobs":[-5E-1],"top_logprobs":[{"A":-5E-1,"B":-1E0}],"text_offset":[0]})");
  EXPECT_EQ(e[2].at("choices").at(0).at("logprobs").at("text_offset").at(0).as_int64(), 1);
  EXPECT_EQ(e[3].at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(e[3].at("choices").at(0).at("text"), "");
}

TEST_F(completion_of_kind, chat_comes_whole) {
  request_.return_token_ids = true;
  request_.common.logprobs = 0;
  completion c = make(completion_kind::chat, false);
  c.on_event(0, started(1));
  c.on_event(0, text("Hi"));
  c.on_event(0, text("!", 66));
  EXPECT_FALSE(c.finished());
  auto end = ended(2);
  end.stop_string = "END";
  c.on_event(0, end);
  ASSERT_TRUE(c.finished());
  EXPECT_EQ(c.take_frames(), "");
  const json::value v = json::parse(c.body());
  EXPECT_EQ(v.at("id"), "id-1");
  EXPECT_EQ(v.at("object"), "chat.completion");
  EXPECT_EQ(json::serialize(v.at("prompt_token_ids")), "[1,2,3,4]");
  const json::value& choice = v.at("choices").at(0);
  EXPECT_EQ(json::serialize(choice.at("message")), R"({"role":"assistant","content":"Hi!","refusal":null})");
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(json::serialize(choice.at("token_ids")), "[65,66]");
  EXPECT_EQ(choice.at("logprobs").at("content").as_array().size(), 2u);
  EXPECT_EQ(v.at("usage").at("total_tokens").as_int64(), 6);
  EXPECT_EQ(v.at("kvern").at("cache").at("computed").as_int64(), 3);
  EXPECT_EQ(v.at("kvern").at("stop_string"), "END");
}

TEST_F(completion_of_kind, several_choices_end_together) {
  request_.include_usage = true;
  completion c = make(completion_kind::chat, true, 2);
  c.on_event(1, started(3));
  c.on_event(1, text("b"));
  end_event guessed = ended(1);
  guessed.drafted_tokens = 7;
  guessed.accepted_tokens = 2;
  c.on_event(1, guessed);
  EXPECT_FALSE(c.finished());
  c.on_event(0, started());
  c.on_event(0, text("a"));
  guessed = ended(4);
  guessed.drafted_tokens = 2;
  guessed.accepted_tokens = 1;
  c.on_event(0, guessed);
  EXPECT_TRUE(c.finished());
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 8u);
  EXPECT_EQ(e[0].at("choices").at(0).at("index").as_int64(), 1);
  EXPECT_EQ(e[0].at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_EQ(e[3].at("choices").at(0).at("index").as_int64(), 0);
  EXPECT_EQ(e[3].at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_EQ(e[6].at("usage").at("prompt_tokens").as_int64(), 4);
  EXPECT_EQ(e[6].at("usage").at("completion_tokens").as_int64(), 5);
  EXPECT_EQ(json::serialize(e[6].at("usage").at("completion_tokens_details")),
            R"({"accepted_prediction_tokens":3,"rejected_prediction_tokens":6})");

  completion whole = make(completion_kind::text, false, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    whole.on_event(i, started());
    whole.on_event(i, ended(0));
  }
  const json::value v = json::parse(whole.body());
  EXPECT_TRUE(v.at("choices").at(1).at("kvern").at("cache").is_object());
  EXPECT_EQ(v.at("choices").at(1).at("text"), "");
}

TEST_F(completion_of_kind, an_empty_answer_still_has_a_role_and_an_end) {
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started());
  c.on_event(0, ended(0));
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 3u);
  EXPECT_EQ(e[0].at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_EQ(e[1].at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(completion_of_kind, failures_end_it) {
  completion c = make(completion_kind::chat, true);
  c.on_event(0, started());
  c.on_event(0, text("x"));
  parsed_events(c);
  auto end = ended(1, gpu::finish_reason::failed);
  end.why = {"worker_failed", "gone"};
  c.on_event(0, end);
  EXPECT_TRUE(c.finished());
  ASSERT_TRUE(c.failure());
  c.on_event(0, text("late"));
  const auto e = parsed_events(c);
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].at("error").at("code"), "worker_failed");

  completion refused = make(completion_kind::chat, false);
  refused.on_event(0, refused_event{{"queue_full", "wait"}});
  EXPECT_EQ(refused.failure()->code, "queue_full");

  completion cancelled = make(completion_kind::chat, false);
  cancelled.on_event(0, started());
  cancelled.on_event(0, ended(0, gpu::finish_reason::cancelled));
  EXPECT_FALSE(cancelled.failure());
  EXPECT_EQ(json::parse(cancelled.body()).at("choices").at(0).at("finish_reason"), "cancelled");
}

}  // namespace
}  // namespace kvern::ipc
