#include "ipc/client/sse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvern::client {
namespace {

using ::testing::ElementsAre;

TEST(sse_reader, events_are_the_same_however_the_stream_is_cut) {
  const std::string stream = ": comment\ndata: {\"a\":1}\r\n\r\nevent: x\ndata: one\ndata:two\n\n\n\ndata: [DONE]\n\n";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    std::vector<std::string> got;
    sse_reader reader([&](std::string_view data) { got.emplace_back(data); });
    for (std::size_t at = 0; at < stream.size(); at += size) reader.push(std::string_view(stream).substr(at, size));
    EXPECT_THAT(got, ElementsAre("{\"a\":1}", "one\ntwo", "[DONE]")) << size;
  }
}

TEST(sse_reader, an_event_without_its_end_is_not_handed_out) {
  int events = 0;
  sse_reader reader([&](std::string_view) { ++events; });
  reader.push("data: half\n");
  EXPECT_EQ(events, 0);
  reader.push("\n");
  EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace kvern::client
