#include "gpu/cpu/machine.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string_view>
#include <thread>

#include "tests/support/golden.hpp"

namespace kvern::gpu::cpu {
namespace {

namespace fs = std::filesystem;

class fake_system {
 public:
  const fs::path& root() const { return folder_.path(); }

  fake_system& put(const fs::path& file, std::string_view text) {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text << '\n';
    return *this;
  }

  fake_system& core(int cpu, int package, int core_number) {
    const std::string topology = fmt::format("sys/devices/system/cpu/cpu{}/topology/", cpu);
    return put(topology + "physical_package_id", std::to_string(package))
        .put(topology + "core_id", std::to_string(core_number));
  }

 private:
  test::scratch_folder folder_;
};

TEST(machine, hyper_threads_count_once) {
  fake_system system;
  system.core(0, 0, 0).core(1, 0, 1).core(2, 0, 0).core(3, 0, 1).core(4, 1, 0).core(5, 1, 0);
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3, 4, 5}), 3);
  EXPECT_EQ(usable_cores(system.root(), {0, 2}), 1);
  EXPECT_EQ(usable_cores(system.root(), {1, 4}), 2);
}

TEST(machine, processors_without_topology_count_each) {
  const fake_system system;
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2}), 3);
  EXPECT_EQ(usable_cores(system.root(), {}), 1);
}

TEST(machine, the_tightest_cpu_quota_holds) {
  fake_system system;
  system.put("proc/self/cgroup", "0::/outer.slice/inner");
  system.put("sys/fs/cgroup/outer.slice/inner/cpu.max", "max 100000");
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3}), 4);
  system.put("sys/fs/cgroup/outer.slice/cpu.max", "250000 100000");
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3}), 2);
  system.put("sys/fs/cgroup/outer.slice/inner/cpu.max", "50000 100000");
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3}), 1);
}

TEST(machine, version_1_quotas_hold_too) {
  fake_system system;
  system.put("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job");
  system.put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000");
  system.put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3}), 3);
  system.put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(usable_cores(system.root(), {0, 1, 2, 3}), 4);
}

TEST(machine, memory_is_what_system_and_cgroup_leave) {
  fake_system system;
  EXPECT_EQ(available_memory(system.root()), 0u);
  system.put("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB");
  EXPECT_EQ(available_memory(system.root()), 8000u * 1024);
  system.put("proc/self/cgroup", "0::/job");
  system.put("sys/fs/cgroup/job/memory.max", "max");
  EXPECT_EQ(available_memory(system.root()), 8000u * 1024);
  system.put("sys/fs/cgroup/job/memory.max", "1000000").put("sys/fs/cgroup/job/memory.current", "400000");
  EXPECT_EQ(available_memory(system.root()), 600'000u);
  system.put("sys/fs/cgroup/job/memory.current", "1400000");
  EXPECT_EQ(available_memory(system.root()), 0u);
}

TEST(machine, nodes_hold_the_processors_that_may_be_used) {
  fake_system system;
  EXPECT_TRUE(numa_nodes(system.root(), {0, 1}).empty());
  system.put("sys/devices/system/node/node0/cpulist", "0-2,8").put("sys/devices/system/node/node10/cpulist", "5");
  system.put("sys/devices/system/node/node2/cpulist", "3-4").put("sys/devices/system/node/node3/cpulist", "");
  system.put("sys/devices/system/node/node4/cpulist", "x,-1,9-").put("sys/devices/system/node/has_cpu", "0-10");
  EXPECT_EQ(numa_nodes(system.root(), {0, 2, 3, 5, 8, 9}),
            (std::vector<numa_node>{{0, {0, 2, 8}}, {2, {3}}, {10, {5}}}));
  EXPECT_EQ(numa_nodes(system.root(), {1}), (std::vector<numa_node>{{0, {1}}}));
}

TEST(machine, shards_and_their_threads_share_nodes) {
  const std::vector<numa_node> two = {{0, {0, 1}}, {1, {2, 3}}};
  const std::vector<numa_node> four = {{0, {0}}, {1, {1}}, {2, {2}}, {5, {3}}};
  using lists = std::vector<std::vector<int>>;
  const shard_placement even = place_shards(two, 2, 4);
  EXPECT_EQ(even.nodes, (lists{{0}, {1}}));
  EXPECT_EQ(even.cpus, (lists{{0, 1}, {0, 1}, {2, 3}, {2, 3}}));
  const shard_placement wide = place_shards(four, 2, 3);
  EXPECT_EQ(wide.nodes, (lists{{0, 1}, {2, 5}}));
  EXPECT_EQ(wide.cpus, (lists{{0, 1}, {0, 1}, {2, 3}}));
  const shard_placement narrow = place_shards(two, 3, 3);
  EXPECT_EQ(narrow.nodes, (lists{{0}, {0}, {1}}));
  EXPECT_EQ(narrow.cpus, (lists{{0, 1}, {0, 1}, {2, 3}}));
  for (const shard_placement& none :
       {place_shards(two, 1, 4), place_shards({two[0]}, 2, 4), place_shards({}, 2, 4), place_shards(two, 3, 2)}) {
    EXPECT_TRUE(none.nodes.empty());
    EXPECT_TRUE(none.cpus.empty());
  }
}

TEST(machine, hostile_files_are_survived) {
  fake_system system;
  system.put("proc/self/cgroup", "0::/../../..\nnonsense\n::\n1:cpu").put("sys/fs/cgroup/cpu.max", "1 0");
  system.put("proc/meminfo", "MemAvailable:").core(0, -1, -1);
  EXPECT_EQ(usable_cores(system.root(), {0, 1}), 2);
  EXPECT_EQ(available_memory(system.root()), 0u);
}

TEST(machine, this_machine_has_cores_and_memory) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  EXPECT_GT(available_memory(), 0u);
}

}  // namespace
}  // namespace kvern::gpu::cpu
