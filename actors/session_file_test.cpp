#include "actors/session_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "gpu/cache/safetensors.hpp"

namespace kvern::actors {
namespace {

using gpu::block_lines;
using gpu::page_lines;

/// Five layers: 0, 2 and 4 without window in one table each; 1 and 3 with a window of 40.
session_file_terms terms_of(gpu::line_type type, gpu::scale_span scale = gpu::scale_span::group) {
  session_file_terms terms;
  terms.model = "0123";
  terms.fingerprint = "all of it";
  auto& info = terms.info;
  info.vocab = 1000;
  info.context = 256;
  info.max_position = 100'000;
  info.windows = {0, 0, 0, 40, 40};
  info.page_layers = 1;
  info.layers = {{0, 0}, {3, 0}, {1, 0}, {4, 0}, {2, 0}};
  info.kv_heads = 3;
  info.head_dim = 40;
  info.type = type;
  info.scale = scale;
  const auto element = type == gpu::line_type::f32 ? 4u : type == gpu::line_type::int8 ? 1u : 2u;
  auto part = 3u * 40 * element;
  if (type == gpu::line_type::int8)
    part += 2 * (scale == gpu::scale_span::group ? 3u * 2 : scale == gpu::scale_span::head ? 3u : 1u);
  info.page_bytes = std::uint64_t{2} * part * page_lines;
  return terms;
}

/// The same in two tables of pages that hold two layers, and a third layer's place left to one more.
session_file_terms two_layer_pages() {
  auto terms = terms_of(gpu::line_type::bf16);
  terms.info.windows = {0, 40};
  terms.info.page_layers = 2;
  terms.info.layers = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  terms.info.page_bytes *= 2;
  return terms;
}

struct sequence {
  gpu::sequence_state state;
  std::vector<block_lines> blocks;
};

/// `committed` lines of random bytes; of tables with a window only the blocks that are seen.
sequence make(const session_file_terms& terms, std::int32_t tokens, std::int32_t committed, gpu::rotation rotate = {}) {
  std::mt19937 random(7);
  sequence out;
  for (std::int32_t i = 0; i < tokens; ++i) out.state.tokens.push_back(static_cast<token_id>(random() % 1000));
  out.state.committed = committed;
  out.state.rotate = rotate;
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(terms.info.windows.size()); ++t) {
    const auto seen = gpu::visible(rotate, terms.info.windows[static_cast<std::size_t>(t)], committed);
    for (std::int32_t b = 0; b * page_lines < committed; ++b) {
      const bool kept = b * page_lines < seen.kept_end && (b + 1) * page_lines > seen.kept_begin;
      if (!kept && (b + 1) * page_lines <= seen.first) continue;
      block_lines lines{t, b, std::min(page_lines, committed - b * page_lines), {}};
      lines.bytes.resize(static_cast<std::size_t>(lines.lines) * terms.info.page_bytes / page_lines);
      for (auto& byte : lines.bytes) byte = static_cast<std::byte>(random());
      out.blocks.push_back(std::move(lines));
    }
  }
  return out;
}

void expect_same(session_file file, const sequence& wanted, std::size_t bytes) {
  EXPECT_EQ(file.state().tokens, wanted.state.tokens);
  EXPECT_EQ(file.state().committed, wanted.state.committed);
  EXPECT_EQ(file.state().rotate, wanted.state.rotate);
  std::vector<block_lines> got;
  for (auto some = file.next(bytes); !some.empty(); some = file.next(bytes))
    got.insert(got.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  ASSERT_EQ(got.size(), wanted.blocks.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].table, wanted.blocks[i].table);
    EXPECT_EQ(got[i].block, wanted.blocks[i].block);
    EXPECT_EQ(got[i].lines, wanted.blocks[i].lines);
    EXPECT_EQ(got[i].bytes, wanted.blocks[i].bytes);
  }
}

TEST(session_file, gives_back_what_went_in) {
  using enum gpu::line_type;
  std::vector<session_file_terms> all{terms_of(f32), terms_of(f16), terms_of(bf16), two_layer_pages()};
  for (const auto scale : {gpu::scale_span::group, gpu::scale_span::head, gpu::scale_span::line})
    all.push_back(terms_of(int8, scale));
  for (const auto& terms : all) {
    for (const auto& [tokens, committed] : {std::pair{1, 0}, {5, 5}, {65, 64}, {200, 199}, {256, 256}}) {
      SCOPED_TRACE(committed);
      const auto wanted = make(terms, tokens, committed);
      const auto bytes = write_session_file(terms, wanted.state, wanted.blocks);
      EXPECT_LE(bytes.size(), max_session_file_bytes(terms.info));
      auto file = session_file::read(bytes, terms);
      ASSERT_TRUE(file) << file.error().message;
      expect_same(std::move(*file), wanted, committed % 2 ? 1 : 1 << 20);
    }
  }
}

TEST(session_file, keeps_a_rotation) {
  const auto terms = terms_of(gpu::line_type::f16);
  const auto wanted = make(terms, 2001, 2000, {2, 4});
  const auto bytes = write_session_file(terms, wanted.state, wanted.blocks);
  auto file = session_file::read(bytes, terms);
  ASSERT_TRUE(file) << file.error().message;
  expect_same(std::move(*file), wanted, 10'000);
}

TEST(session_file, holds_tensors_as_documented) {
  const auto terms = two_layer_pages();
  const auto wanted = make(terms, 101, 100);
  const auto bytes = write_session_file(terms, wanted.state, wanted.blocks);
  const auto file = gpu::read_safetensors(std::as_bytes(std::span(bytes)), 1 << 20);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->metadata.at("format"), "kvern-session-1");
  EXPECT_EQ(file->metadata.at("kv_type"), "bf16");
  EXPECT_EQ(file->metadata.at("committed"), "100");
  ASSERT_TRUE(file->find("layers.2.v"));
  EXPECT_EQ(file->find("layers.2.v")->spec, (gpu::tensor_spec{"layers.2.v", gpu::tensor_type::bf16, {100, 3, 40}}));
  EXPECT_FALSE(file->find("layers.0.positions"));
  // 100 sees back to 61: the first block is gone.
  ASSERT_TRUE(file->find("layers.3.positions"));
  EXPECT_EQ(file->find("layers.3.positions")->spec.shape, std::vector<std::uint64_t>{100 - 32});
  // Layer 2 is the second of table 0's pages: its V is the last quarter of a block.
  const auto& block = wanted.blocks[1];
  const auto part = 3u * 40 * 2 * page_lines;
  EXPECT_EQ(std::memcmp(file->find("layers.2.v")->data.data() + part, block.bytes.data() + 3 * part, part), 0);
}

TEST(session_file, of_another_make_is_told_apart) {
  const auto terms = terms_of(gpu::line_type::int8);
  const auto wanted = make(terms, 33, 33);
  const auto bytes = write_session_file(terms, wanted.state, wanted.blocks);
  const auto code = [&](auto change) {
    auto other = terms;
    change(other);
    const auto read = session_file::read(bytes, other);
    return read ? std::string() : read.error().code;
  };
  EXPECT_EQ(code([](auto&) {}), "");
  EXPECT_EQ(code([](auto& t) { t.model = "4567"; }), "session_file_mismatch");
  EXPECT_EQ(code([](auto& t) { t.fingerprint = "another"; }), "session_file_mismatch");
  EXPECT_EQ(code([](auto& t) { t.info.type = gpu::line_type::f16; }), "session_file_mismatch");
  EXPECT_EQ(code([](auto& t) { t.info.scale = gpu::scale_span::head; }), "session_file_mismatch");
  EXPECT_EQ(code([](auto& t) { t.info.vocab = 3; }), "invalid_session_file");
  EXPECT_EQ(code([](auto& t) { t.info.context = 32; }), "invalid_session_file");
  EXPECT_EQ(code([](auto& t) { t.info.head_dim = 41; }), "invalid_session_file");
  EXPECT_EQ(code([](auto& t) { t.info.layers.push_back({3, 0}); }), "invalid_session_file");
}

TEST(session_file, lacks_nothing_that_is_needed) {
  const auto terms = terms_of(gpu::line_type::f16);
  const auto whole = make(terms, 200, 199);
  for (std::size_t i = 0; i < whole.blocks.size(); ++i) {
    auto some = whole;
    some.blocks.erase(some.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    const auto read = session_file::read(write_session_file(terms, some.state, some.blocks), terms);
    ASSERT_FALSE(read) << i;
    EXPECT_EQ(read.error().code, "invalid_session_file");
  }
  auto wrong = whole;
  wrong.state.committed = 198;  // the last block has a line more
  EXPECT_FALSE(session_file::read(write_session_file(terms, wrong.state, wrong.blocks), terms));
}

TEST(session_file, cut_or_changed_it_is_refused_or_within_its_bounds) {
  constexpr std::uint64_t seed = 99;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto terms = terms_of(gpu::line_type::int8);
  const auto wanted = make(terms, 100, 99);
  const auto whole = write_session_file(terms, wanted.state, wanted.blocks);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof(header));
  for (int round = 0; round < 300; ++round)
    EXPECT_FALSE(session_file::read(whole.substr(0, random() % whole.size()), terms));
  for (int round = 0; round < 3000; ++round) {
    auto bytes = whole;
    // Most changes hit the header: what is after it is numbers of the cache.
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const auto at = random() % (random() % 4 == 0 ? bytes.size() : header + 8);
      bytes[at] = random() % 2 ? static_cast<char>(random()) : "0123456789"[random() % 10];
    }
    auto read = session_file::read(bytes, terms);
    if (!read) continue;
    for (const auto token : read->state().tokens) EXPECT_LT(static_cast<std::uint32_t>(token), 1000u);
    std::size_t blocks = 0;
    for (auto some = read->next(1 << 16); !some.empty(); some = read->next(1 << 16)) blocks += some.size();
    EXPECT_LE(blocks, 4u * 5);
  }
}

}  // namespace
}  // namespace kvern::actors
