#include "ipc/token_pieces.hpp"

#include <gtest/gtest.h>

#include "ipc/fake_service.hpp"

namespace kvern::ipc {
namespace {

TEST(token_pieces, asks_for_what_it_does_not_know) {
  const auto service = std::make_shared<fake_service>();
  token_pieces pieces(service);
  EXPECT_EQ(pieces.find(65), std::nullopt);
  int done = 0;
  pieces.resolve(std::vector<token_id>{65, 66, 65}, [&] { ++done; });
  EXPECT_EQ(done, 1);
  EXPECT_EQ(pieces.find(65), "A");
  EXPECT_EQ(pieces.find(66), "B");
  pieces.resolve(std::vector<token_id>{65}, [&] { ++done; });
  pieces.resolve(std::vector<token_id>{}, [&] { ++done; });
  EXPECT_EQ(done, 3);
}

TEST(token_pieces, keeps_a_space_that_begins_a_text) {
  token_pieces pieces(std::make_shared<fake_service>());  // its detokenize drops the first space
  pieces.resolve(std::vector<token_id>{' '}, [] {});
  EXPECT_EQ(pieces.find(' '), " ");
}

}  // namespace
}  // namespace kvern::ipc
