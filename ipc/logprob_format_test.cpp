#include "ipc/logprob_format.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <limits>

#include "ipc/fake_service.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

class logprobs : public ::testing::Test {
 protected:
  fake_service vocabulary_;
};

TEST_F(logprobs, have_openai_s_chat_shape) {
  const std::vector<generated_token> tokens{{65, "A", {-0.5, {{65, -0.5}, {66, -1.0}}}}};
  EXPECT_EQ(
      json::serialize(chat_logprobs(tokens, vocabulary_)),
      R"({"content":[{"token":"A","logprob":-5E-1,"bytes":[65],"top_logprobs":[)"
      R"({"token":"A","logprob":-5E-1,"bytes":[65]},{"token":"B","logprob":-1E0,"bytes":[66]}]}],"refusal":null})");
}

TEST_F(logprobs, keep_the_bytes_of_parts_of_characters) {
  const std::vector<generated_token> tokens{{0xF0, "\xF0", {-1, {}}}, {0x9F, "\x9F", {-2, {{0x9F, -2}, {0xC3, -3}}}}};
  const json::object chat = chat_logprobs(tokens, vocabulary_);
  EXPECT_EQ(chat.at("content").at(0).at("token"), "\xEF\xBF\xBD");
  EXPECT_EQ(chat.at("content").at(0).at("bytes").at(0).to_number<int>(), 0xF0);
  const json::value& alternative = chat.at("content").at(1).at("top_logprobs").at(1);
  EXPECT_EQ(alternative.at("token"), "\xEF\xBF\xBD");
  EXPECT_EQ(json::serialize(alternative.at("bytes")), "[195]");
  std::int64_t offset = 0;
  const json::object text = text_logprobs(tokens, vocabulary_, offset);
  EXPECT_EQ(text.at("tokens").at(0), "bytes:\\xf0");
  EXPECT_EQ(text.at("top_logprobs").at(1).at("bytes:\\x9f").as_double(), -2);
  EXPECT_EQ(text.at("top_logprobs").at(1).at("bytes:\\xc3").as_double(), -3);
}

TEST_F(logprobs, always_show_the_token_itself_in_completions) {
  const std::vector<generated_token> tokens{{65, "A", {-3, {{66, -0.5}}}}, {67, "C", {-4, {}}}};
  std::int64_t offset = 10;
  const json::object o = text_logprobs(tokens, vocabulary_, offset);
  EXPECT_EQ(json::serialize(o.at("top_logprobs")), R"([{"B":-5E-1,"A":-3E0},{"C":-4E0}])");
  EXPECT_EQ(json::serialize(o.at("text_offset")), "[10,11]");
  EXPECT_EQ(offset, 12);
}

TEST_F(logprobs, count_offsets_in_characters) {
  const std::vector<generated_token> tokens{
      {1, "\xC3\xBC", {}}, {2, "\xF0\x9F", {}}, {3, "\x98\xB8", {}}, {4, "x", {}}};
  std::int64_t offset = 0;
  EXPECT_EQ(json::serialize(text_logprobs(tokens, vocabulary_, offset).at("text_offset")), "[0,1,2,2]");
  EXPECT_EQ(offset, 3);
}

TEST_F(logprobs, write_no_infinity) {
  const std::vector<generated_token> tokens{{65, "A", {-std::numeric_limits<double>::infinity(), {}}}};
  EXPECT_EQ(chat_logprobs(tokens, vocabulary_).at("content").at(0).at("logprob").as_double(), -9999.0);
}

TEST_F(logprobs, show_what_a_token_is_and_count_what_it_wrote) {
  // A control token that was generated wrote nothing into the answer.
  const std::vector<generated_token> tokens{{66, "", {-1, {{66, -1}}}}, {65, "A", {-1, {}}}};
  EXPECT_EQ(chat_logprobs(tokens, vocabulary_).at("content").at(0).at("token"), "B");
  std::int64_t offset = 0;
  const json::object o = text_logprobs(tokens, vocabulary_, offset);
  EXPECT_EQ(json::serialize(o.at("tokens")), R"(["B","A"])");
  EXPECT_EQ(json::serialize(o.at("text_offset")), "[0,0]");
}

TEST_F(logprobs, show_the_likelier_of_two_tokens_with_the_same_bytes) {
  const std::vector<generated_token> tokens{{65, "A", {-0.5, {{65, -0.5}, {300, -2}, {301, -3}}}}};
  std::int64_t offset = 0;
  EXPECT_EQ(json::serialize(text_logprobs(tokens, vocabulary_, offset).at("top_logprobs")), R"([{"A":-5E-1,"":-2E0}])");
}

}  // namespace
}  // namespace kvern::ipc
