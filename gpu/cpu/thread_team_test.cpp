#include "gpu/cpu/thread_team.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace kvern::gpu::cpu {
namespace {

TEST(thread_team, runs_every_index_once) {
  for (const int threads : {1, 2, 3, 8}) {
    thread_team team(threads);
    EXPECT_EQ(team.size(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
      team.run(count, [&](std::int64_t i) { ++times[static_cast<std::size_t>(i)]; });
      for (const auto& t : times) EXPECT_EQ(t.load(), 1);
    }
  }
}

TEST(thread_team, results_are_visible_to_the_caller_and_to_the_next_task) {
  thread_team team(4);
  std::vector<std::int64_t> values(64, 0);  // plain: the team orders the accesses
  for (int round = 1; round <= 3000; ++round) {
    team.run(64,
             [&](std::int64_t i) { values[static_cast<std::size_t>(i)] += values[static_cast<std::size_t>(i)] + i; });
    team.run(64, [&](std::int64_t i) { values[static_cast<std::size_t>(63 - i)] %= 1000003; });
  }
  std::vector<std::int64_t> expected(64, 0);
  for (int round = 1; round <= 3000; ++round) {
    for (std::int64_t i = 0; i < 64; ++i) {
      std::int64_t& v = expected[static_cast<std::size_t>(i)];
      v = (v + v + i) % 1000003;
    }
  }
  EXPECT_EQ(values, expected);
}

TEST(thread_team, runs_every_index_of_every_group_once) {
  for (const int threads : {1, 2, 3, 8}) {
    thread_team team(threads);
    const std::vector<std::vector<std::int64_t>> groupings{
        {0}, {5}, {0, 0, 0}, {3, 3, 7}, {0, 1}, {100, 101}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000}};
    for (int round = 0; round < 50; ++round) {
      for (const auto& ends : groupings) {
        std::vector<int> times(static_cast<std::size_t>(ends.back()), 0);  // plain: an index has one thread
        team.run_groups(ends, [&](std::int64_t i) { ++times[static_cast<std::size_t>(i)]; });
        EXPECT_EQ(times, std::vector<int>(times.size(), 1));
      }
    }
    team.run_groups({}, [](std::int64_t) { FAIL(); });
  }
}

/// Four groups of as many indices as threads belong to each; all wait until every thread has taken its first one.
TEST(thread_team, threads_begin_in_their_own_groups) {
  for (const int threads : {4, 8}) {
    thread_team team(threads);
    const int each = threads / 4;
    std::atomic<int> inside{0};
    std::mutex lock;
    std::map<std::thread::id, std::set<std::int64_t>> groups;
    const std::vector<std::int64_t> ends{each, 2 * each, 3 * each, 4 * each};
    team.run_groups(ends, [&](std::int64_t i) {
      {
        const std::scoped_lock guard(lock);
        groups[std::this_thread::get_id()].insert(i / each);
      }
      ++inside;
      while (inside.load() < threads) std::this_thread::yield();
    });
    EXPECT_EQ(groups.size(), static_cast<std::size_t>(threads));
    EXPECT_EQ(groups[std::this_thread::get_id()], std::set<std::int64_t>{0});
  }
}

TEST(thread_team, threads_help_other_groups) {
  thread_team team(2);
  std::atomic<int> inside{0};
  // The only group with work has two indices that wait for each other.
  team.run_groups(std::vector<std::int64_t>{0, 2}, [&](std::int64_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(thread_team, one_thread_stays_on_the_caller) {
  thread_team team(1);
  std::set<std::thread::id> ids;
  team.run(100, [&](std::int64_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(thread_team, workers_take_part) {
  thread_team team(2);
  std::atomic<int> inside{0};
  // Each index waits for the other: done only when two threads work at the same time.
  team.run(2, [&](std::int64_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

/// Whether every thread of this process but the caller is asleep.
bool others_sleep() {
  const std::string self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');  // of "(name) S", the state
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") S") != 0) return false;
  }
  return true;
}

TEST(thread_team, workers_wake_from_sleep) {
  thread_team team(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> inside{0};
    while (!others_sleep()) std::this_thread::yield();
    team.run(2, [&](std::int64_t) {
      ++inside;
      while (inside.load() < 2) std::this_thread::yield();
    });
  }
}

/// Another program, as it were, that wants all of a processor: the one that it was told last.
class intruder {
 public:
  intruder() {
    thread_ = std::thread([this] {
      for (int at = -1; !stop_.load(std::memory_order_relaxed);) {
        const int wanted = cpu_.load(std::memory_order_relaxed);
        if (wanted == at) continue;
        at = wanted;
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(static_cast<std::size_t>(at), &only);
        sched_setaffinity(0, sizeof only, &only);
      }
    });
  }
  ~intruder() {
    stop_ = true;
    thread_.join();
  }
  intruder(const intruder&) = delete;
  intruder& operator=(const intruder&) = delete;

  void go_to(int cpu) { cpu_.store(cpu, std::memory_order_relaxed); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> cpu_{-1};
  std::thread thread_;
};

/// The processors that a thread of this process may run on.
std::vector<int> affinity(pid_t id) {
  std::vector<int> cpus;
  cpu_set_t mask;
  if (sched_getaffinity(id, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &mask)) cpus.push_back(cpu);
  return cpus;
}

std::map<pid_t, std::vector<int>> affinities() {
  std::map<pid_t, std::vector<int>> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t id = std::stoi(task.path().filename().string());
    all.emplace(id, affinity(id));
  }
  return all;
}

TEST(thread_team, tasks_are_whole_where_another_program_takes_a_processor) {
  if (affinity(0).size() < 2) GTEST_SKIP() << "needs two processors";
  const std::thread::id caller = std::this_thread::get_id();
  for (const int threads : {2, 3}) {
    thread_team team(threads);
    const auto before = affinities();
    {
      intruder other;
      for (int round = 0; round < 300; ++round) {
        std::vector<int> times(24, 0);  // plain: an index has one thread
        std::atomic<std::uint64_t> sink{0};
        team.run(24, [&](std::int64_t i) {
          if (std::this_thread::get_id() != caller) other.go_to(sched_getcpu());
          std::uint64_t x = static_cast<std::uint64_t>(i) + 1;
          for (int n = 0; n < 4000; ++n) x = x * 6364136223846793005U + 1442695040888963407U;
          sink += x;
          ++times[static_cast<std::size_t>(i)];
        });
        ASSERT_EQ(times, std::vector<int>(times.size(), 1));
      }
    }
    while (!others_sleep()) std::this_thread::yield();
    EXPECT_EQ(affinities(), before);
  }
}

/// A worker that has nothing left while all others run goes on looking after them.
TEST(thread_team, a_caller_that_loses_its_processor_late_is_moved) {
  if (affinity(0).size() < 2) GTEST_SKIP() << "needs two processors";
  thread_team team(2);
  const auto before = affinities();
  std::atomic<bool> begun{false};
  team.run(2, [&](std::int64_t i) {
    if (i == 1) {
      while (!begun.load()) std::this_thread::yield();
      return;
    }
    begun = true;
    while (!others_sleep()) std::this_thread::yield();
    intruder other;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (affinity(0).size() > 1 && std::chrono::steady_clock::now() < end) other.go_to(sched_getcpu());
    EXPECT_EQ(affinity(0).size(), 1U);
  });
  while (!others_sleep()) std::this_thread::yield();
  EXPECT_EQ(affinities(), before);
}

/// Many more threads than cores: a caller must not wait for workers that have no core, nor spin while they would run.
/// In a process of its own: a user who may have four threads asks for 64.
[[noreturn]] void make_too_many_threads() {
  const rlimit few{4, 4};
  constexpr uid_t nobody_else = 65533;
  const bool limited = setrlimit(RLIMIT_NPROC, &few) == 0 && setresuid(nobody_else, nobody_else, nobody_else) == 0;
  try {
    const thread_team team(64);
    std::_Exit(limited && team.size() != 64 ? 1 : 0);  // a system that does not count threads gives them all
  } catch (const std::system_error&) {
    std::_Exit(0);
  }
}

TEST(thread_team, a_refused_thread_is_an_error_and_no_end) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(make_too_many_threads(), testing::ExitedWithCode(0), "");
}

TEST(thread_team, survives_oversubscription) {
  const auto seconds_for = [](int threads) {
    thread_team team(threads);
    std::atomic<std::uint64_t> sink{0};
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < 300; ++round) {
      team.run(16, [&](std::int64_t i) {
        std::uint64_t x = static_cast<std::uint64_t>(i) + 1;
        for (int n = 0; n < 4000; ++n) x = x * 6364136223846793005U + 1442695040888963407U;
        sink += x;
      });
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double alone = seconds_for(1);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_LT(seconds_for(8 * std::max(cores, 1)), 15 * alone + 0.5);
}

}  // namespace
}  // namespace kvern::gpu::cpu
