#include "gpu/cpu/attention_plan.hpp"

#include <algorithm>
#include <cstddef>

namespace kvern::gpu::cpu {
namespace {

// Threads take items of work as they come: with so many for each, none waits long for the last one.
constexpr std::int64_t items_of_thread = 8;

// Heads of a line are computed together, because they lie together, unless there were fewer items for each thread then.
constexpr std::int64_t least_items_of_thread = 4;

// The states of rounds that are folded later take no more than this, else tiles are computed whole.
constexpr std::int64_t most_state_floats = std::int64_t{1} << 24;

/// What all rows of a tile see lies between what the first one sees and the last one's position.
attention_plan::round_list rounds_of(const attention_args& args, const attention_plan::tile& t) {
  const visible_keys seen = seen_by(args, t.row_of(0));
  const auto rounds = [](int begin, int end) -> attention_plan::range {
    return {begin / round_lines, (end - 1) / round_lines + 1};
  };
  attention_plan::round_list list;
  list.recent = rounds(seen.first, args.what->rows[static_cast<std::size_t>(t.row_of(t.vectors - 1))].position + 1);
  if (seen.kept_begin < seen.kept_end) list.kept = rounds(seen.kept_begin, seen.kept_end);
  if (list.kept.end > list.recent.begin) {
    list.recent.begin = std::min(list.recent.begin, list.kept.begin);
    list.kept = {};
  }
  return list;
}

}  // namespace

visible_keys seen_by(const attention_args& args, int row) {
  const step_row& r = args.what->rows[static_cast<std::size_t>(row)];
  return visible(args.what->sequences[static_cast<std::size_t>(r.sequence)].rotate, args.window, r.position);
}

/// Of each sequence the longest first.
void attention_plan::find_whole_tiles(const attention_args& args) {
  const std::vector<step_row>& rows = args.what->rows;
  const int group = args.heads / args.kv_heads;
  whole.clear();
  cost = 0;
  for (std::size_t shard = 0; shard < args.shards.size(); ++shard) {
    const shard_lines& lines = args.shards[shard];
    for (std::size_t row = 0; row < rows.size();) {
      std::size_t end = row + 1;
      while (end < rows.size() && rows[end].sequence == rows[row].sequence) ++end;
      const int count = static_cast<int>(end - row) * group;
      for (int v = (count - 1) / attention_tile * attention_tile; v >= 0; v -= attention_tile) {
        tile t{.sequence = rows[row].sequence,
               .shard = static_cast<int>(shard),
               .kv_head = lines.first_kv_head,
               .kv_heads = lines.kv_heads,
               .group = group,
               .first_row = static_cast<int>(row),
               .first_vector = v,
               .vectors = std::min(attention_tile, count - v),
               .rounds = {},
               .states = -1,
               .items = 1};
        t.rounds = rounds_of(args, t);
        cost += t.rounds.count() * t.round_cost();
        whole.push_back(t);
      }
      row = end;
    }
  }
}

/// Makes a tile an item, or several when it takes long beside the share of a thread.
void attention_plan::add_items(const tile& what, int width, std::int64_t most_cost) {
  const int rounds = what.rounds.count();
  const std::int64_t states = std::int64_t{rounds} * what.all_vectors();
  int parts = 1;
  if ((vectors + states) * (width + 2) <= most_state_floats)
    parts = static_cast<int>(std::min<std::int64_t>((rounds * what.round_cost() - 1) / most_cost + 1, rounds));
  for (int part = 0; part < parts; ++part)
    items.push_back({static_cast<int>(tiles.size()), {rounds * part / parts, rounds * (part + 1) / parts}});
  tile& t = tiles.emplace_back(what);
  if (parts == 1) return;
  t.states = vectors;
  t.items = parts;
  vectors += states;
}

void attention_plan::make(const attention_args& args, int width, int threads) {
  find_whole_tiles(args);
  const auto share = [&](std::int64_t wanted) {
    return threads == 1 ? cost : std::max<std::int64_t>(cost / (wanted * threads), 1);
  };
  const std::int64_t most_cost = share(items_of_thread), most_of_round = share(least_items_of_thread);
  tiles.clear();
  items.clear();
  ends.assign(args.shards.size(), 0);
  vectors = 0;
  for (const tile& all : whole) {
    const std::int64_t fit = most_of_round * all.kv_heads / all.round_cost();
    const int together = static_cast<int>(std::clamp<std::int64_t>(fit, 1, std::max(1, attention_tile / all.vectors)));
    tile t = all;
    for (int h = 0; h < all.kv_heads; h += together) {
      t.kv_head = all.kv_head + h;
      t.kv_heads = std::min(together, all.kv_heads - h);
      add_items(t, width, most_cost);
    }
    ends[static_cast<std::size_t>(all.shard)] = static_cast<std::int64_t>(items.size());
  }
}

}  // namespace kvern::gpu::cpu
