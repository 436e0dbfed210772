#include "gpu/cpu/attention.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

static_assert(block_lines == page_lines);

// Keys are gathered in segments of so many blocks, at absolute positions, each from its own start; segments are then
// folded in order. So one long row can be spread over threads without its bits depending on whether it was.
constexpr int segment_blocks = 16;
constexpr int segment_lines = segment_blocks * block_lines;

constexpr std::size_t line_floats = 16;
static_assert(attention_tile % line_floats == 0);

/// The vectors of a sequence for one KV head: query head `v % group` of its row `v / group`.
struct tile {
  int sequence;
  int kv_head;
  int first_row;  // of the sequence, in the step
  int first_vector;
  int vectors;
  int segment;           // the only one to compute, or -1: all of them
  std::int64_t partial;  // where its state goes, in vectors
};

/// Running maximum, sum and weighted values of some vectors.
struct state {
  float* largest;
  float* total;
  float* acc;
};

struct worker {
  const attention_args& args;
  const kernels& table;
  int group;
  int width;

  std::size_t scratch_floats() const {
    const auto w = static_cast<std::size_t>(width);
    constexpr std::size_t tile_vectors = attention_tile;
    return w * (2 * block_lines + 3 * tile_vectors) + tile_vectors * (block_lines + 4) + line_floats;
  }

  int row_of(const tile& t, int v) const { return t.first_row + (t.first_vector + v) / group; }
  int position_of(const tile& t, int v) const {
    return args.what->rows[static_cast<std::size_t>(row_of(t, v))].position;
  }
  std::int64_t element_of(const tile& t, int v) const {
    const int head = t.kv_head * group + (t.first_vector + v) % group;
    return (std::int64_t{row_of(t, v)} * args.heads + head) * args.head_dim;
  }

  void clear(const state& s, int vectors) const {
    std::fill_n(s.largest, vectors, -std::numeric_limits<float>::infinity());
    std::fill_n(s.total, vectors, 0.0F);
    std::fill_n(s.acc, std::int64_t{vectors} * width, 0.0F);
  }

  const void* line(const line_view& lines, std::int64_t number, int head) const {
    const std::int64_t bytes = std::int64_t{args.head_dim} * (args.type == line_type::f16 ? 2 : 4);
    return lines.base + number * lines.stride + head * bytes;
  }

  /// Blocks [begin, end) of the keys into `s`, vectors [skip, t.vectors) of the tile.
  void gather(const tile& t, int begin, int end, const state& s, attention_block& block) const {
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    const shard_lines* shard = args.shards.data();
    while (t.kv_head >= shard->first_kv_head + shard->kv_heads) ++shard;
    const int head = t.kv_head - shard->first_kv_head;
    const page_id* const pages = sequence.pages.data() + sequence.pages.size() / static_cast<std::size_t>(args.tables) *
                                                             static_cast<std::size_t>(args.table);
    const int last = position_of(t, t.vectors - 1);
    int keys[attention_tile];
    block.keys = keys;
    block.largest = s.largest;
    block.total = s.total;
    block.acc = s.acc;
    for (int b = begin; b < end; ++b) {
      const int first = b * block_lines;
      block.lines = std::min(block_lines, last + 1 - first);
      for (int v = 0; v < t.vectors; ++v) keys[v] = std::clamp(position_of(t, v) + 1 - first, 0, block_lines);
      for (int j = 0; j < block.lines; ++j) {
        const int position = first + j;
        if (args.eager || position < sequence.committed) {
          const std::int64_t number = std::int64_t{pages[b]} * page_lines + j;
          block.k[j] = line(shard->page_k, number, head);
          block.v[j] = line(shard->page_v, number, head);
        } else {
          const std::int64_t number = t.first_row + position - sequence.committed;
          block.k[j] = line(shard->staged_k, number, head);
          block.v[j] = line(shard->staged_v, number, head);
        }
      }
      table.attend(block);
    }
  }

  void write(const tile& t, const state& s) const {
    for (int v = 0; v < t.vectors; ++v) {
      table.finish(s.acc + std::int64_t{v} * width, s.total[v], args.out + element_of(t, v), args.head_dim);
    }
  }

  /// A tile whole, or, when `partial` is given, the one segment it names.
  void run(const tile& t, const state* partial) const {
    thread_local std::vector<float> scratch;
    if (scratch.size() < scratch_floats()) scratch.resize(scratch_floats());
    // On a cache line, so that no vector load needs two of them; every part is a multiple of a line.
    const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    float* at = scratch.data() + (line_floats - address / sizeof(float) % line_floats) % line_floats;
    const auto take = [&at](std::int64_t n) {
      float* const p = at;
      at += n;
      return p;
    };
    attention_block block{};
    block.vectors = t.vectors;
    block.head_dim = args.head_dim;
    block.width = width;
    block.half = args.type == line_type::f16;
    block.k_scratch = take(std::int64_t{width} * block_lines);
    block.v_scratch = take(std::int64_t{width} * block_lines);
    block.weights = take(attention_tile * block_lines);
    float* const q = take(std::int64_t{width} * attention_tile);
    block.q = q;
    for (int v = 0; v < t.vectors; ++v) {
      const float* const from = args.q + element_of(t, v);
      for (int d = 0; d < args.head_dim; ++d) q[d * attention_tile + v] = from[d] * args.scale;
    }

    const int blocks = position_of(t, t.vectors - 1) / block_lines + 1;
    if (partial != nullptr) {
      clear(*partial, t.vectors);
      gather(t, t.segment * segment_blocks, std::min(blocks, (t.segment + 1) * segment_blocks), *partial, block);
      return;
    }
    const auto take_state = [&]() -> state {
      return {take(attention_tile), take(attention_tile), take(std::int64_t{attention_tile} * width)};
    };
    const state all = take_state(), one = take_state();
    for (int begin = 0; begin < blocks; begin += segment_blocks) {
      const state& to = begin == 0 ? all : one;
      clear(to, t.vectors);
      gather(t, begin, std::min(blocks, begin + segment_blocks), to, block);
      if (begin == 0) continue;
      // Positions ascend with vectors: those that end before this segment come first and are left as they are.
      int skip = 0;
      while (position_of(t, skip) < begin * block_lines) ++skip;
      table.merge(t.vectors - skip, width, all.largest + skip, all.total + skip, all.acc + std::int64_t{skip} * width,
                  one.largest + skip, one.total + skip, one.acc + std::int64_t{skip} * width);
    }
    write(t, all);
  }
};

/// What a call of attend needs, kept by the calling thread from layer to layer and step to step.
struct plan {
  std::vector<tile> tiles;
  std::vector<tile> parts;    // tiles by segments
  std::vector<float> memory;  // states of the parts
};

/// A few rows with long prefixes: one item for each segment of a tile, folded afterwards.
void attend_in_segments(const worker& w, plan& own, thread_team& team) {
  std::vector<tile>& parts = own.parts;
  parts.clear();
  std::int64_t vectors = 0;
  for (const tile& t : own.tiles) {
    const int segments = w.position_of(t, t.vectors - 1) / segment_lines + 1;
    for (int s = 0; s < segments; ++s) {
      tile part = t;
      part.segment = s;
      part.partial = vectors;
      vectors += t.vectors;
      parts.push_back(part);
    }
  }
  std::vector<float>& memory = own.memory;
  const std::size_t floats = static_cast<std::size_t>(vectors) * static_cast<std::size_t>(w.width + 2);
  if (memory.size() < floats) memory.resize(floats);
  const auto state_at = [&](std::int64_t v) -> state {
    float* const acc = memory.data() + 2 * vectors;
    return {memory.data() + v, memory.data() + vectors + v, acc + v * w.width};
  };
  team.run(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
    const tile& part = parts[static_cast<std::size_t>(i)];
    const state to = state_at(part.partial);
    w.run(part, &to);
  });
  for (std::size_t i = 0; i < parts.size();) {
    const tile& first = parts[i];
    const state all = state_at(first.partial);
    for (++i; i < parts.size() && parts[i].segment > 0; ++i) {
      const tile& part = parts[i];
      const state one = state_at(part.partial);
      int skip = 0;
      while (w.position_of(part, skip) < part.segment * segment_lines) ++skip;
      w.table.merge(part.vectors - skip, w.width, all.largest + skip, all.total + skip,
                    all.acc + std::int64_t{skip} * w.width, one.largest + skip, one.total + skip,
                    one.acc + std::int64_t{skip} * w.width);
    }
    w.write(first, all);
  }
}

}  // namespace

void attend(const attention_args& args, isa i, thread_team& team) {
  const step& s = *args.what;
  const worker w{args, kernels_for(i), args.heads / args.kv_heads, (args.head_dim + 15) / 16 * 16};
  thread_local plan callers;
  plan& own = callers;  // the team's threads see this one, not their own
  std::vector<tile>& tiles = own.tiles;
  tiles.clear();
  int longest = 0;
  for (std::size_t row = 0; row < s.rows.size();) {
    std::size_t end = row + 1;
    while (end < s.rows.size() && s.rows[end].sequence == s.rows[row].sequence) ++end;
    longest = std::max(longest, s.rows[end - 1].position);
    const int vectors = static_cast<int>(end - row) * w.group;
    for (int kv = 0; kv < args.kv_heads; ++kv) {
      for (int v = 0; v < vectors; v += attention_tile) {
        tiles.push_back(
            {s.rows[row].sequence, kv, static_cast<int>(row), v, std::min(attention_tile, vectors - v), -1, 0});
      }
    }
    row = end;
  }
  if (longest >= segment_lines && tiles.size() < static_cast<std::size_t>(team.size()) * 4) {
    attend_in_segments(w, own, team);
    return;
  }
  team.run(static_cast<std::int64_t>(tiles.size()),
           [&](std::int64_t t) { w.run(tiles[static_cast<std::size_t>(t)], nullptr); });
}

}  // namespace kvern::gpu::cpu
