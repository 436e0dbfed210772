#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {

/// How the attention of a step is divided into items of work. Kept by the calling thread from layer to layer and step
/// to step for its memory.
///
/// Keys are gathered in rounds at absolute positions, each from its own start; rounds are then folded in order. So one
/// long row can be spread over threads without its bits depending on whether it was.
struct attention_plan {
  /// [begin, end).
  struct range {
    int begin = 0, end = 0;
    int count() const { return end - begin; }
  };

  /// The rounds in which keys of a tile lie: around kept ones, then around recent ones.
  struct round_list {
    range kept, recent;
    int count() const { return kept.count() + recent.count(); }
    int operator[](int n) const { return n < kept.count() ? kept.begin + n : recent.begin + n - kept.count(); }
  };

  /// Vectors of a sequence for neighbouring KV heads: of each head the query heads `v % group` of rows `v / group`.
  struct tile {
    int sequence;
    int shard;
    int kv_head;    // of all
    int kv_heads;   // with `vectors` for each, at most attention_tile vectors together
    int group;      // query heads of a KV head
    int first_row;  // of the sequence, in the step
    int first_vector;
    int vectors;
    round_list rounds;
    std::int64_t states;  // where those of its rounds go, in vectors, or -1: it is one item
    int items;            // not yet done

    int all_vectors() const { return kv_heads * vectors; }
    int row_of(int v) const { return first_row + (first_vector + v) / group; }
    /// In about the time that a vector takes, of which reading the lines takes some.
    std::int64_t round_cost() const { return std::int64_t{kv_heads} * (vectors + 4); }
  };

  /// Some rounds of a tile.
  struct item {
    int tile;
    range rounds;  // numbers in the tile's list
  };

  std::vector<tile> whole;  // of all rows, with all KV heads of a shard
  std::vector<tile> tiles;
  std::vector<item> items;         // by shards
  std::vector<std::int64_t> ends;  // of each shard's items
  std::vector<float> memory;       // states of rounds
  std::int64_t cost = 0;           // of all
  std::int64_t vectors = 0;        // that have states in memory

  /// Plans for so many threads. A vector's state has `width` accumulators. `memory` is left as it is.
  void make(const attention_args& args, int width, int threads);

 private:
  void find_whole_tiles(const attention_args& args);
  void add_items(const tile& what, int width, std::int64_t most_cost);
};

/// The keys that row `row` of a step sees.
visible_keys seen_by(const attention_args& args, int row);

}  // namespace kvern::gpu::cpu
