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
constexpr std::int64_t virtual_page = 4096;  // bytes, the smallest there are
static_assert(attention_tile % line_floats == 0);

/// The vectors of a sequence for one KV head: query head `v % group` of its row `v / group`.
struct tile {
  int sequence;
  int shard;
  int kv_head;    // of all
  int first_row;  // of the sequence, in the step
  int first_vector;
  int vectors;
  int segment;           // the only one to compute, or -1: all of them
  std::int64_t partial;  // where its state goes, in vectors
};

/// Blocks [begin, end).
struct block_range {
  int begin, end;
};

/// The keys that the vectors of a tile see, and the blocks in which they lie: kept ones, then recent ones.
struct sight {
  visible_keys keys[attention_tile];
  int position[attention_tile];
  int vectors;
  block_range kept, recent;

  /// Calls f(block) for blocks of segment `only` (-1: all), ascending.
  template <class F>
  void each_block(int only, F f) const {
    for (const block_range& range : {kept, recent}) {
      const int begin = only < 0 ? range.begin : std::max(range.begin, only * segment_blocks);
      const int end = only < 0 ? range.end : std::min(range.end, (only + 1) * segment_blocks);
      for (int b = begin; b < end; ++b) f(b);
    }
  }

  /// Calls f(segment) for those with blocks of a range, ascending.
  template <class F>
  void each_segment(F f) const {
    int next = 0;
    for (const block_range& range : {kept, recent}) {
      if (range.begin == range.end) continue;
      const int end = (range.end - 1) / segment_blocks + 1;
      for (int s = std::max(next, range.begin / segment_blocks); s < end; ++s) f(s);
      next = end;
    }
  }

  /// Keys [first[v], last[v]) of block `b` are what vector v sees of it; equal when it sees none. Returns their union.
  block_range bounds(int b, int* first, int* last) const {
    const int start = b * block_lines;
    // Both ends of what is seen ascend with positions.
    if (start >= keys[vectors - 1].first && start + block_lines <= position[0] + 1) {
      std::fill_n(first, vectors, 0);
      std::fill_n(last, vectors, block_lines);
      return {0, block_lines};
    }
    block_range all{block_lines, 0};
    for (int v = 0; v < vectors; ++v) {
      const visible_keys& seen = keys[v];
      int low = std::max(seen.first - start, 0), high = std::min(position[v] + 1 - start, block_lines);
      if (low >= high) {
        low = std::max(seen.kept_begin - start, 0);
        high = std::min(seen.kept_end - start, block_lines);
      }
      first[v] = low < high ? low : 0;
      last[v] = low < high ? high : 0;
      if (low >= high) continue;
      all.begin = std::min(all.begin, low);
      all.end = std::max(all.end, high);
    }
    return all;
  }
};

/// Running maximum, sum and weighted values of some vectors.
struct state {
  float* largest;
  float* total;
  float* acc;
};

line_element element_of(line_type type) {
  switch (type) {
    case line_type::f32:
      return line_element::f32;
    case line_type::f16:
      return line_element::f16;
    case line_type::bf16:
      return line_element::bf16;
    case line_type::int8:
      return line_element::int8;
  }
  return line_element::f32;
}

std::int64_t bytes_of(line_type type) { return type == line_type::f32 ? 4 : type == line_type::int8 ? 1 : 2; }

struct worker {
  const attention_args& args;
  const kernels& table;
  int group;
  int width;
  int scale_groups;

  worker(const attention_args& a, const kernels& k)
      : args(a),
        table(k),
        group(a.heads / a.kv_heads),
        width((a.head_dim + 15) / 16 * 16),
        scale_groups(
            a.type == line_type::int8 && a.span == scale_span::group ? (a.head_dim + scale_dims - 1) / scale_dims : 1) {
  }

  std::size_t scratch_floats() const {
    const auto w = static_cast<std::size_t>(width);
    constexpr std::size_t tile_vectors = attention_tile;
    return w * (2 * block_lines + 3 * tile_vectors) + tile_vectors * (block_lines + 4) +
           static_cast<std::size_t>(scale_groups) * 6 * block_lines + line_floats;
  }

  int row_of(const tile& t, int v) const { return t.first_row + (t.first_vector + v) / group; }
  std::int64_t query_of(const tile& t, int v) const {
    const int head = t.kv_head * group + (t.first_vector + v) % group;
    return (std::int64_t{row_of(t, v)} * args.heads + head) * args.head_dim;
  }

  sight sight_of(const tile& t) const {
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    sight s;
    s.vectors = t.vectors;
    s.kept = {std::numeric_limits<int>::max(), 0};
    for (int v = 0; v < t.vectors; ++v) {
      if (v > 0 && row_of(t, v) == row_of(t, v - 1)) {
        s.keys[v] = s.keys[v - 1];
        s.position[v] = s.position[v - 1];
        continue;
      }
      s.position[v] = args.what->rows[static_cast<std::size_t>(row_of(t, v))].position;
      const visible_keys seen = s.keys[v] = visible(sequence.rotate, args.window, s.position[v]);
      if (seen.kept_begin >= seen.kept_end) continue;
      s.kept.begin = std::min(s.kept.begin, seen.kept_begin / block_lines);
      s.kept.end = std::max(s.kept.end, (seen.kept_end - 1) / block_lines + 1);
    }
    s.recent = {s.keys[0].first / block_lines, s.position[t.vectors - 1] / block_lines + 1};
    if (s.kept.begin >= s.kept.end) {
      s.kept = {0, 0};
    } else if (s.recent.begin <= s.kept.end) {  // rows from before the rotation, or close behind it
      s.recent.begin = std::min(s.recent.begin, s.kept.begin);
      s.kept = {0, 0};
    }
    return s;
  }

  void clear(const state& s, int vectors) const {
    std::fill_n(s.largest, vectors, -std::numeric_limits<float>::infinity());
    std::fill_n(s.total, vectors, 0.0F);
    std::fill_n(s.acc, std::int64_t{vectors} * width, 0.0F);
  }

  void merge(int vectors, const state& to, const state& from) const {
    table.merge(vectors, width, to.largest, to.total, to.acc, from.largest, from.total, from.acc);
  }

  /// The values of `lines` lines from number `first` on, for the head at `offset` bytes.
  static void point(const line_view& view, std::int64_t first, std::int64_t offset, int lines, const void** out) {
    const std::byte* at = view.base + first * view.stride + offset;
    for (int j = 0; j < lines; ++j, at += view.stride) out[j] = at;
  }

  page_id page_of(const step_sequence& sequence, int b) const {
    const std::size_t blocks = sequence.pages.size() / static_cast<std::size_t>(args.tables);
    return sequence.pages[static_cast<std::size_t>(args.table) * blocks + static_cast<std::size_t>(b)];
  }

  /// Keys [block.begin, block.end) of block `b`.
  void find_lines(const tile& t, int b, attention_block& block) const {
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    const shard_lines& shard = args.shards[static_cast<std::size_t>(t.shard)];
    const std::int64_t offset = (t.kv_head - shard.first_kv_head) * bytes_of(args.type) * args.head_dim;
    const int start = b * block_lines;
    const int split = args.eager ? block.end : std::clamp(sequence.committed - start, block.begin, block.end);
    if (split > block.begin) {
      const std::int64_t first = std::int64_t{page_of(sequence, b)} * page_lines + block.begin;
      point(shard.page_k, first, offset, split - block.begin, block.k + block.begin);
      point(shard.page_v, first, offset, split - block.begin, block.v + block.begin);
    }
    if (split < block.end) {
      const std::int64_t first = t.first_row + start + split - sequence.committed;
      point(shard.staged_k, first, offset, block.end - split, block.k + split);
      point(shard.staged_v, first, offset, block.end - split, block.v + split);
    }
  }

  /// While block `b` is computed, memory is asked for block b + 1, if that is below `end` and so is seen next: it may
  /// lie anywhere, and the processor does not foresee it. Sets how far away it is, which is nothing when its lines are
  /// not in a page. Of block b + 2 one line in each page of virtual memory is asked for, so that addresses are
  /// translated by then.
  void fetch_next(const tile& t, int b, int end, attention_block& block) const {
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    const shard_lines& shard = args.shards[static_cast<std::size_t>(t.shard)];
    const auto paged = [&](int n) { return args.eager || sequence.committed > n * block_lines; };
    const std::int64_t pages = paged(b + 1) ? page_of(sequence, b + 1) - page_of(sequence, b) : 0;
    block.fetch_k = pages * page_lines * shard.page_k.stride;
    block.fetch_v = pages * page_lines * shard.page_v.stride;
    if (b + 2 >= end || !paged(b + 2)) return;
    const std::int64_t first = std::int64_t{page_of(sequence, b + 2)} * page_lines;
    const std::int64_t offset = (t.kv_head - shard.first_kv_head) * bytes_of(args.type) * args.head_dim;
    for (const line_view& view : {shard.page_k, shard.page_v}) {
      const std::byte* const from = view.base + first * view.stride + offset;
      for (std::int64_t at = 0; at < page_lines * view.stride; at += virtual_page) __builtin_prefetch(from + at);
    }
  }

  /// Bytes from the values of a tile's head to its scales.
  std::int64_t scales_at(const tile& t) const {
    const shard_lines& shard = args.shards[static_cast<std::size_t>(t.shard)];
    const std::int64_t head = t.kv_head - shard.first_kv_head;
    const std::int64_t scale = args.span == scale_span::line ? 0 : head * scale_groups;
    return shard.scales_offset + scale * std::int64_t{sizeof(std::uint16_t)} - head * args.head_dim;
  }

  void write(const tile& t, const state& s) const {
    for (int v = 0; v < t.vectors; ++v) {
      table.finish(s.acc + std::int64_t{v} * width, s.total[v], args.out + query_of(t, v), args.head_dim);
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
    int first[attention_tile], last[attention_tile];
    attention_block block{};
    block.vectors = t.vectors;
    block.head_dim = args.head_dim;
    block.width = width;
    block.element = element_of(args.type);
    block.groups = scale_groups;
    block.scales_at = scales_at(t);
    block.cap = args.cap;
    block.first = first;
    block.last = last;
    block.k_scratch = take(std::int64_t{width} * block_lines);
    block.v_scratch = take(std::int64_t{width} * block_lines);
    block.weights = take(attention_tile * block_lines);
    block.k_scales = take(std::int64_t{scale_groups} * block_lines);
    block.v_scales = take(std::int64_t{scale_groups} * block_lines);
    block.scaled = take(std::int64_t{scale_groups} * 4 * block_lines);
    float* const q = take(std::int64_t{width} * attention_tile);
    block.q = q;
    for (int v = 0; v < t.vectors; ++v) {
      const float* const from = args.q + query_of(t, v);
      for (int d = 0; d < args.head_dim; ++d) q[d * attention_tile + v] = from[d] * args.scale;
    }
    const auto take_state = [&]() -> state {
      return {take(attention_tile), take(attention_tile), take(std::int64_t{attention_tile} * width)};
    };
    const state own = take_state(), next = take_state();
    const state& all = partial != nullptr ? *partial : own;

    const sight seen = sight_of(t);
    int segment = -1;
    const state* into = nullptr;
    seen.each_block(t.segment, [&](int b) {
      const block_range lines = seen.bounds(b, first, last);
      if (lines.begin >= lines.end) return;
      if (into == nullptr || b / segment_blocks != segment) {
        if (into == &next) merge(t.vectors, all, next);
        into = into == nullptr ? &all : &next;
        clear(*into, t.vectors);
        segment = b / segment_blocks;
        block.largest = into->largest;
        block.total = into->total;
        block.acc = into->acc;
      }
      block.begin = lines.begin;
      block.end = lines.end;
      find_lines(t, b, block);
      block.fetch_k = block.fetch_v = 0;
      const int end = b < seen.kept.end ? seen.kept.end : seen.recent.end;
      if (b + 1 < end) fetch_next(t, b, end, block);
      table.attend(block);
    });
    if (into == nullptr) clear(all, t.vectors);
    if (into == &next) merge(t.vectors, all, next);
    if (partial == nullptr) write(t, all);
  }
};

/// What a call of attend needs, kept by the calling thread from layer to layer and step to step.
struct plan {
  std::vector<tile> tiles;         // by shards
  std::vector<tile> parts;         // tiles by segments
  std::vector<std::int64_t> ends;  // of each shard's tiles or parts
  std::vector<float> memory;       // states of the parts
};

/// A few rows with long prefixes: one item for each segment of a tile, folded afterwards.
void attend_in_segments(const worker& w, plan& own, thread_team& team) {
  std::vector<tile>& parts = own.parts;
  parts.clear();
  std::fill(own.ends.begin(), own.ends.end(), 0);
  std::int64_t vectors = 0;
  for (const tile& t : own.tiles) {
    w.sight_of(t).each_segment([&](int segment) {
      tile part = t;
      part.segment = segment;
      part.partial = vectors;
      vectors += t.vectors;
      parts.push_back(part);
    });
    own.ends[static_cast<std::size_t>(t.shard)] = static_cast<std::int64_t>(parts.size());
  }
  std::vector<float>& memory = own.memory;
  const std::size_t floats = static_cast<std::size_t>(vectors) * static_cast<std::size_t>(w.width + 2);
  if (memory.size() < floats) memory.resize(floats);
  const auto state_at = [&](std::int64_t v) -> state {
    float* const acc = memory.data() + 2 * vectors;
    return {memory.data() + v, memory.data() + vectors + v, acc + v * w.width};
  };
  team.run_groups(own.ends, [&](std::int64_t i) {
    const tile& part = parts[static_cast<std::size_t>(i)];
    const state to = state_at(part.partial);
    w.run(part, &to);
  });
  std::size_t i = 0;
  for (const tile& t : own.tiles) {
    const state all = state_at(parts[i].partial);
    for (++i; i < parts.size() && parts[i].kv_head == t.kv_head && parts[i].first_row == t.first_row &&
              parts[i].first_vector == t.first_vector;
         ++i)
      w.merge(t.vectors, all, state_at(parts[i].partial));
    w.write(t, all);
  }
}

}  // namespace

void attend(const attention_args& args, isa i, thread_team& team) {
  const step& s = *args.what;
  const worker w(args, kernels_for(i));
  thread_local plan callers;
  plan& own = callers;  // the team's threads see this one, not their own
  std::vector<tile>& tiles = own.tiles;
  tiles.clear();
  own.ends.clear();
  int longest = 0;  // keys of a row
  for (std::size_t shard = 0; shard < args.shards.size(); ++shard) {
    const shard_lines& lines = args.shards[shard];
    for (std::size_t row = 0; row < s.rows.size();) {
      std::size_t end = row + 1;
      while (end < s.rows.size() && s.rows[end].sequence == s.rows[row].sequence) ++end;
      const step_row& last = s.rows[end - 1];
      const visible_keys seen =
          visible(s.sequences[static_cast<std::size_t>(last.sequence)].rotate, args.window, last.position);
      longest = std::max(longest, seen.kept_end - seen.kept_begin + last.position + 1 - seen.first);
      const int vectors = static_cast<int>(end - row) * w.group;
      for (int kv = lines.first_kv_head; kv < lines.first_kv_head + lines.kv_heads; ++kv) {
        for (int v = 0; v < vectors; v += attention_tile) {
          tiles.push_back({last.sequence, static_cast<int>(shard), kv, static_cast<int>(row), v,
                           std::min(attention_tile, vectors - v), -1, 0});
        }
      }
      row = end;
    }
    own.ends.push_back(static_cast<std::int64_t>(tiles.size()));
  }
  if (longest > segment_lines && tiles.size() < static_cast<std::size_t>(team.size()) * 4) {
    attend_in_segments(w, own, team);
    return;
  }
  team.run_groups(own.ends, [&](std::int64_t t) { w.run(tiles[static_cast<std::size_t>(t)], nullptr); });
}

}  // namespace kvern::gpu::cpu
