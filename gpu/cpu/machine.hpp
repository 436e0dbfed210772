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

/// The same two questions about the system described under `root` (its /proc and /sys), for tests. `cpus`: the affinity
/// mask as processor numbers.
int usable_cores(const std::filesystem::path& root, const std::vector<int>& cpus);
std::uint64_t available_memory(const std::filesystem::path& root);

}  // namespace kvern::gpu::cpu
