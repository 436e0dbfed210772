#include "gpu/cpu/attention.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cpu/attention_plan.hpp"
#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

static_assert(block_lines == page_lines);

// 2^x is quicker than e^x.
constexpr float log2_e = 1.44269504F;

constexpr std::size_t line_floats = 16;
static_assert(attention_tile % line_floats == 0);

using tile = attention_plan::tile;

/// The keys that the vectors of a tile see.
struct sight {
  visible_keys keys[attention_tile];
  int position[attention_tile];
  int vectors;

  /// Fills in which keys of round `n` the vectors see.
  void bounds(int n, attention_round& to) const {
    const int start = n * round_lines;
    // Both ends of what is seen ascend with positions.
    to.whole = start >= keys[vectors - 1].first && start + round_lines <= position[0] + 1;
    for (int b = 0; b < round_blocks; ++b) {
      to.begin[b] = to.whole ? 0 : block_lines;
      to.end[b] = to.whole ? block_lines : 0;
      for (int v = 0; v < vectors && !to.whole; ++v) bounds(start + b * block_lines, v, b, to);
    }
  }

 private:
  void bounds(int start, int v, int b, attention_round& to) const {
    const visible_keys& seen = keys[v];
    int low = std::max(seen.first - start, 0), high = std::min(position[v] + 1 - start, block_lines);
    if (low >= high) {
      low = std::max(seen.kept_begin - start, 0);
      high = std::min(seen.kept_end - start, block_lines);
    }
    if (low >= high) low = high = 0;
    to.first[b][v] = low;
    to.last[b][v] = high;
    if (low >= high) return;
    to.begin[b] = std::min(to.begin[b], low);
    to.end[b] = std::max(to.end[b], high);
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
  int width;
  int scale_groups;

  worker(const attention_args& a, const kernels& k)
      : args(a),
        table(k),
        width((a.head_dim + 15) / 16 * 16),
        scale_groups(
            a.type == line_type::int8 && a.span == scale_span::group ? (a.head_dim + scale_dims - 1) / scale_dims : 1) {
  }

  std::size_t scratch_floats() const {
    const auto w = static_cast<std::size_t>(width);
    constexpr std::size_t tile_vectors = attention_tile, words = 2;
    return w * (block_lines + block_lines / words + 3 * tile_vectors) + round_lines * value_columns +
           tile_vectors * (round_lines + 4) + static_cast<std::size_t>(scale_groups) * (block_lines + round_lines) +
           line_floats;
  }

  /// Where vector `v` of a tile's head `h` lies in q and out.
  std::int64_t query_of(const tile& t, int h, int v) const {
    const int head = (t.kv_head + h) * t.group + (t.first_vector + v) % t.group;
    return (std::int64_t{t.row_of(v)} * args.heads + head) * args.head_dim;
  }

  sight sight_of(const tile& t) const {
    sight s;
    s.vectors = t.vectors;
    for (int v = 0; v < t.vectors; ++v) {
      const int row = t.row_of(v);
      s.position[v] = args.what->rows[static_cast<std::size_t>(row)].position;
      s.keys[v] = v > 0 && row == t.row_of(v - 1) ? s.keys[v - 1] : seen_by(args, row);
    }
    return s;
  }

  void merge(int vectors, const state& to, const state& from) const {
    table.merge(vectors, width, to.largest, to.total, to.acc, from.largest, from.total, from.acc);
  }

  /// `lines` lines from number `first` on.
  static void point(const line_view& view, std::int64_t first, int lines, const void** out) {
    const std::byte* at = view.base + first * view.stride;
    for (int j = 0; j < lines; ++j, at += view.stride) out[j] = at;
  }

  /// no_page of a block behind the table's last one.
  page_id page_of(const step_sequence& sequence, int b) const {
    const std::size_t blocks = sequence.pages.size() / static_cast<std::size_t>(args.tables);
    const auto block = static_cast<std::size_t>(b);
    return block < blocks ? sequence.pages[static_cast<std::size_t>(args.table) * blocks + block] : no_page;
  }

  /// The lines of those keys of block `b` of a sequence that are to be read, which is block `n` of the round.
  void find_lines(const tile& t, int b, int n, attention_round& round) const {
    const int begin = round.begin[n], end = round.end[n];
    if (begin >= end) return;
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    const shard_lines& shard = args.shards[static_cast<std::size_t>(t.shard)];
    const int start = b * block_lines;
    const int split = args.eager ? end : std::clamp(sequence.committed - start, begin, end);
    const void** const k = round.k + n * block_lines;
    const void** const v = round.v + n * block_lines;
    if (split > begin) {
      const std::int64_t first = std::int64_t{page_of(sequence, b)} * page_lines + begin;
      point(shard.page_k, first, split - begin, k + begin);
      point(shard.page_v, first, split - begin, v + begin);
    }
    if (split < end) {
      const std::int64_t first = t.first_row + start + split - sequence.committed;
      point(shard.staged_k, first, end - split, k + split);
      point(shard.staged_v, first, end - split, v + split);
    }
  }

  /// Bytes from K of block `b` to K of the same block a round later, which may lie anywhere, so that the processor does
  /// not foresee it. 0 when either is not in a page.
  std::int64_t distance(const tile& t, int b) const {
    const step_sequence& sequence = args.what->sequences[static_cast<std::size_t>(t.sequence)];
    const int later = b + round_blocks;
    if (!args.eager && sequence.committed <= later * block_lines) return 0;
    const page_id from = page_of(sequence, b), to = page_of(sequence, later);
    if (from == no_page || to == no_page) return 0;
    return std::int64_t{to - from} * page_lines * args.shards[static_cast<std::size_t>(t.shard)].page_k.stride;
  }

  /// Fills in where a tile's head `h` lies in each line.
  void point_to_head(const tile& t, int h, attention_round& round) const {
    const shard_lines& shard = args.shards[static_cast<std::size_t>(t.shard)];
    const std::int64_t head = t.kv_head + h - shard.first_kv_head;
    const std::int64_t scale = args.span == scale_span::line ? 0 : head * scale_groups;
    round.offset = head * args.head_dim * bytes_of(args.type);
    round.scales_at = shard.scales_offset + scale * std::int64_t{sizeof(std::uint16_t)} - round.offset;
  }

  void write(const tile& t, const state& s) const {
    for (int n = 0; n < t.all_vectors(); ++n) {
      float* const to = args.out + query_of(t, n / t.vectors, n % t.vectors);
      table.finish(s.acc + std::int64_t{n} * width, s.total[n], to, args.head_dim);
    }
  }

  /// Rounds `which` of a tile's list: their states one after another to `states`, or, when that is null, folded and
  /// written, which takes all rounds.
  void run(const tile& t, attention_plan::range which, const state* states) const {
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
    attention_round round;
    round.vectors = t.vectors;
    round.head_dim = args.head_dim;
    round.width = width;
    round.element = element_of(args.type);
    round.groups = scale_groups;
    round.cap = args.cap * log2_e;
    round.k_scratch = take(std::int64_t{width} * block_lines);
    round.k_words = reinterpret_cast<std::uint16_t*>(take(std::int64_t{width} * block_lines / 2));
    round.v_scratch = take(std::int64_t{round_lines} * value_columns);
    round.weights = take(std::int64_t{attention_tile} * round_lines);
    round.k_scales = take(std::int64_t{scale_groups} * block_lines);
    round.v_scales = take(std::int64_t{scale_groups} * round_lines);
    float* const q = take(std::int64_t{width} * attention_tile);
    const float scale = args.scale * log2_e;
    for (int n = 0; n < t.all_vectors(); ++n) {
      const float* const from = args.q + query_of(t, n / t.vectors, n % t.vectors);
      float* const to = q + std::int64_t{n / t.vectors} * args.head_dim * t.vectors + n % t.vectors;
      for (int d = 0; d < args.head_dim; ++d) to[d * t.vectors] = from[d] * scale;
    }
    const auto take_state = [&]() -> state {
      return {take(attention_tile), take(attention_tile), take(std::int64_t{attention_tile} * width)};
    };
    const state all = take_state(), next = take_state();

    const sight seen = sight_of(t);
    for (int n = which.begin; n < which.end; ++n) {
      const int number = t.rounds[n];
      seen.bounds(number, round);
      for (int b = 0; b < round_blocks; ++b) {
        find_lines(t, number * round_blocks + b, b, round);
        const bool follows = n + 1 < which.end && t.rounds[n + 1] == number + 1 && round.begin[b] < round.end[b];
        round.next[b] = follows ? distance(t, number * round_blocks + b) : 0;
      }
      const state to = states != nullptr  ? at_vector(*states, (n - which.begin) * std::int64_t{t.all_vectors()})
                       : n == which.begin ? all
                                          : next;
      for (int h = 0; h < t.kv_heads; ++h) {
        const state of_head = at_vector(to, h * t.vectors);
        point_to_head(t, h, round);
        round.q = q + std::int64_t{h} * args.head_dim * t.vectors;
        round.largest = of_head.largest;
        round.total = of_head.total;
        round.acc = of_head.acc;
        table.attend(round);
      }
      if (states == nullptr && n > which.begin) merge(t.all_vectors(), all, next);
    }
    if (states == nullptr) write(t, all);
  }

  state at_vector(const state& s, std::int64_t v) const { return {s.largest + v, s.total + v, s.acc + v * width}; }

  /// Folds the states of a tile's rounds, which lie one after another, and writes the result.
  void fold(const tile& t, const state& states) const {
    const int vectors = t.all_vectors();
    for (int n = 1; n < t.rounds.count(); ++n) merge(vectors, states, at_vector(states, std::int64_t{n} * vectors));
    write(t, states);
  }
};

}  // namespace

void attend(const attention_args& args, isa i, thread_team& team) {
  const worker w(args, kernels_for(i));
  thread_local attention_plan callers;
  attention_plan& own = callers;  // the team's threads see this one, not their own
  own.make(args, w.width, team.size());
  const std::int64_t vectors = own.vectors;
  const std::size_t floats = static_cast<std::size_t>(vectors) * static_cast<std::size_t>(w.width + 2);
  if (own.memory.size() < floats) own.memory.resize(floats);
  const state states{own.memory.data(), own.memory.data() + vectors, own.memory.data() + 2 * vectors};
  team.run_groups(own.ends, [&](std::int64_t n) {
    const attention_plan::item& what = own.items[static_cast<std::size_t>(n)];
    tile& t = own.tiles[static_cast<std::size_t>(what.tile)];
    if (t.states < 0) return w.run(t, what.rounds, nullptr);
    const state of_tile = w.at_vector(states, t.states);
    const state here = w.at_vector(of_tile, std::int64_t{what.rounds.begin} * t.all_vectors());
    w.run(t, what.rounds, &here);
    if (std::atomic_ref(t.items).fetch_sub(1, std::memory_order_acq_rel) == 1) w.fold(t, of_tile);
  });
}

}  // namespace kvern::gpu::cpu
