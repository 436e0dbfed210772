#include "actors/scribe.hpp"

#include <gtest/gtest.h>

#include "actors/session.hpp"
#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

const std::string long_text(session::long_prompt + 1, 'l');

struct scribes : test::service_fixture {
  std::promise<void> may_go;

  /// Long prompts are held up until `may_go`.
  void hold_long_prompts() {
    vocabulary->on_encode = [gate = may_go.get_future().share()](std::string_view text) {
      if (text.size() >= long_text.size()) gate.wait();
    };
  }
};

TEST_F(scribes, a_long_prompt_arrives_whole) {
  answer("x");
  start();
  const auto r = run(ask(long_text + "!"));
  EXPECT_EQ(r->get<started_event>().prompt, test::bytes(long_text + "!"));
  EXPECT_EQ(r->text(), "x");
}

TEST_F(scribes, long_prompts_hold_up_nobody_else) {
  hold_long_prompts();
  answer("x");
  start();
  std::vector<running> stuck;
  for (int i = 0; i < 8; ++i) stuck.push_back(begin(ask(long_text)));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(ask("short"))->text(), "x");
  for (auto& r : stuck) EXPECT_TRUE(r->empty());
  may_go.set_value();
  for (auto& r : stuck) {
    ASSERT_TRUE(r->wait_finished());
    EXPECT_EQ(r->text(), "x");
  }
}

TEST_F(scribes, a_tenant_with_too_many_is_refused_and_others_are_not) {
  hold_long_prompts();
  answer("x");
  start();
  std::vector<running> mine;
  for (std::size_t i = 0; i < scribe::most_per_tenant + 2; ++i) mine.push_back(begin(ask(long_text)));
  // One is at work or about to be; what is beyond the bound is told when the scribe next looks at its mailbox.
  auto other = begin(bob, ask(long_text));
  may_go.set_value();
  ASSERT_TRUE(other->wait_finished());
  EXPECT_EQ(other->text(), "x");
  std::size_t refused = 0;
  for (auto& r : mine) {
    ASSERT_TRUE(r->wait_finished());
    const auto code = r->get<refused_event>().why.code;
    refused += code == "queue_full";
    EXPECT_TRUE(code.empty() || code == "queue_full");
  }
  EXPECT_LE(refused, 2u);
}

TEST_F(scribes, a_request_cancelled_while_its_prompt_waits_ends_at_once) {
  hold_long_prompts();
  answer("x");
  start();
  const auto id = new_session();
  auto r = begin(ask(long_text, id));
  r.handle->cancel();
  ASSERT_TRUE(r->wait_finished());
  EXPECT_TRUE(r->in_order());
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  // The session is free, and the late tokens of the first request are not taken for the second's.
  EXPECT_EQ(run(ask("short", id))->get<started_event>().prompt, test::bytes("short"));
  may_go.set_value();
  EXPECT_EQ(run(ask("short", id))->text(), "x");
  EXPECT_EQ(script->submitted, 2);
}

TEST_F(scribes, tokenizes_and_renders_for_the_service) {
  start();
  const auto tokenized = wait<std::vector<token_id>>([&](auto done) {
    service->tokenize({long_text, true, false}, std::move(done));
  });
  ASSERT_TRUE(tokenized);
  EXPECT_EQ(tokenized->size(), long_text.size() + 1);
  const chat_prompt chat{chat::array{chat::object{{"content", long_text}}}, {}, {}, true};
  const auto rendered = wait<kvern::service::rendered>([&](auto done) { service->render(chat, std::move(done)); });
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->text, "<|user|>" + long_text);
  const auto text = wait<std::string>([&](auto done) { service->detokenize(test::bytes(long_text), std::move(done)); });
  EXPECT_EQ(text, long_text);
}

}  // namespace
}  // namespace kvern::actors
