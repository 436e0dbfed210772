#include "model/chat/text.hpp"

#include <gtest/gtest.h>

namespace kvern::chat {
namespace {

std::string shown(const text& t) {
  std::string out;
  t.each_run([&](std::string_view bytes, bool trusted) {
    out += trusted ? "<" : "(";
    out += bytes;
    out += trusted ? ">" : ")";
  });
  return out;
}

text_store sample() {
  text_store s;
  s.append("abc", true);
  s.append("dé", false);
  s.append("f", false);
  s.append("gh", true);
  return s;
}

TEST(text, joins_neighbours_of_equal_trust) {
  text_store s = sample();
  EXPECT_EQ(shown(text::whole(s)), "<abc>(déf)<gh>");
}

TEST(text, slices_keep_trust) {
  text_store s = sample();
  const text t = text::whole(s);
  EXPECT_EQ(shown(t.sub(1, 3)), "<bc>(d)");
  EXPECT_EQ(shown(t.sub(3, 4)), "(déf)");
  EXPECT_EQ(shown(t.from(7)), "<gh>");
  EXPECT_EQ(shown(t.sub(2, 0)), "");
  EXPECT_EQ(shown(t.from(4).sub(2, 2)), "(f)<g>");
  EXPECT_TRUE(t.trusted_at(2));
  EXPECT_FALSE(t.trusted_at(3));
  EXPECT_FALSE(t.all_trusted());
  EXPECT_TRUE(t.sub(0, 3).all_trusted());
  EXPECT_TRUE(text().all_trusted());
}

TEST(text, cursor_agrees_with_trusted_at) {
  text_store s = sample();
  const text t = text::whole(s).from(1);
  trust_cursor c(t);
  for (std::size_t i = 0; i < t.size(); ++i) EXPECT_EQ(c.at(i), t.trusted_at(i)) << i;
}

TEST(text, counts_code_points) {
  text_store s = sample();
  const text t = text::whole(s);
  EXPECT_EQ(t.size(), 9u);
  EXPECT_EQ(t.length(), 8u);
  EXPECT_EQ(t.offset_of(5), 6u);
  EXPECT_FALSE(t.ascii());
  EXPECT_TRUE(t.sub(0, 3).ascii());
}

TEST(text, appending_of_itself_leaves_earlier_slices_true) {
  text_store s = sample();
  const text before = text::whole(s);
  s.append_own(2, 4);
  EXPECT_EQ(shown(before), "<abc>(déf)<gh>");
  EXPECT_EQ(shown(text::whole(s)), "<abc>(déf)<ghc>(dé)");
}

TEST(text, views_own_nothing) {
  const std::string bytes = "xyz";
  text_store s = text_store::view_of(bytes, false);
  EXPECT_FALSE(s.can_grow());
  EXPECT_EQ(text::whole(s).view().data(), bytes.data());
}

}  // namespace
}  // namespace kvern::chat
