#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace kvern::gpu::cpu {

/// Physical cores this process may use: the cores of its affinity mask, a core's hyper-threads counted once, and no
/// more than the whole processors of its cgroup's CPU quota (versions 1 and 2, every ancestor). At least 1.
int usable_cores();

/// Bytes that can be allocated without swapping: the system's estimate, and no more than the cgroup's limits leave.
/// 0 when the system does not say.
std::uint64_t available_memory();

/// Memory and the processors near it, of those this process may use.
struct numa_node {
  int number = 0;
  std::vector<int> cpus;

  friend bool operator==(const numa_node&, const numa_node&) = default;
};

/// The nodes with processors this process may use, ascending; none when the system does not say.
std::vector<numa_node> numa_nodes();

/// Where the shards of a cache and the threads that work on them belong.
struct shard_placement {
  std::vector<std::vector<int>> nodes;  ///< [shard] whose memory it takes; empty: any
  std::vector<std::vector<int>> cpus;   ///< [thread] where it runs; empty: anywhere
};

/// Spreads shards over nodes, in order, and thread t to the nodes of shard t * shards / threads. With one shard, fewer
/// than two nodes or fewer threads than shards, nothing has a place of its own.
shard_placement place_shards(const std::vector<numa_node>& nodes, std::int32_t shards, int threads);

/// The same questions about the system described under `root` (its /proc and /sys), for tests. `cpus`: the affinity
/// mask as processor numbers.
int usable_cores(const std::filesystem::path& root, const std::vector<int>& cpus);
std::uint64_t available_memory(const std::filesystem::path& root);
std::vector<numa_node> numa_nodes(const std::filesystem::path& root, const std::vector<int>& cpus);

}  // namespace kvern::gpu::cpu
