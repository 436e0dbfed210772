#include "ipc/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace kvern::ipc {
namespace {

TEST(metrics, writes_the_numbers) {
  service_stats s;
  s.engine.generated_tokens = 123'456'789;
  s.engine.pages_total = 77;
  s.engine.drafted_tokens = 12;
  s.engine.accepted_tokens = 11;
  s.engine.step_seconds = 1.5;
  s.engine.backend_seconds = 1.25;
  s.worker_alive = false;
  s.requests = 9;
  model_info m;
  m.id = "a\"b\\c\n";
  const std::string page = metrics_page(s, m, 3);
  EXPECT_NE(page.find("# TYPE kvern_generated_tokens_total counter"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_generated_tokens_total 123456789\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\nkvern_pages_capacity 77\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_drafted_tokens_total 12\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_drafted_tokens_accepted_total 11\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_step_seconds_total 1.5\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_backend_seconds_total 1.25\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_worker_up 0\n"), std::string::npos);
  EXPECT_NE(page.find("\nkvern_connections 3\n"), std::string::npos);
  EXPECT_NE(page.find(R"(id="a\"b\\c\n")"), std::string::npos) << page;
}

TEST(metrics, is_a_well_formed_page) {
  const std::string page = metrics_page({}, {}, 0);
  std::istringstream lines(page);
  int samples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) continue;
    EXPECT_THAT(line, testing::MatchesRegex(R"(kvern_[a-z_]+(\{[^}]*\})? [-+0-9.e]+)"));
    ++samples;
  }
  EXPECT_GT(samples, 20);
}

}  // namespace
}  // namespace kvern::ipc
