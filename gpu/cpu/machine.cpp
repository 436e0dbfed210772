#include "gpu/cpu/machine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace kvern::gpu::cpu {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> read_number(const fs::path& path) {
  const auto line = first_line(path);
  return line ? to_number(*line) : std::nullopt;
}

/// Whether `list` ("cpu,cpuacct") names `item`.
bool lists(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == item) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// The folders of this process's control group for `controller`, from its own up to the hierarchy's root.
struct cgroup_folders {
  std::vector<fs::path> v2, v1;
};

cgroup_folders find_cgroups(const fs::path& root, std::string_view controller) {
  cgroup_folders found;
  std::ifstream in(root / "proc/self/cgroup");
  const fs::path mount = root / "sys/fs/cgroup";
  for (std::string line; std::getline(in, line);) {  // "id:controllers:/path"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    fs::path path = fs::path(line.substr(second + 1)).relative_path().lexically_normal();
    const bool unified = controllers.empty();
    if (!unified && !lists(controllers, controller)) continue;
    auto& folders = unified ? found.v2 : found.v1;
    const fs::path base = unified ? mount : mount / std::string(controller);
    for (; !path.empty() && path != "." && *path.begin() != ".."; path = path.parent_path())
      folders.push_back(base / path);
    folders.push_back(base);
  }
  return found;
}

/// Whole processors that the tightest CPU quota allows.
int quota_cores(const fs::path& root) {
  std::int64_t cores = std::numeric_limits<int>::max();
  const auto limit = [&](std::int64_t quota, std::int64_t period) {
    if (quota > 0 && period > 0) cores = std::min(cores, std::max<std::int64_t>(1, quota / period));
  };
  const auto groups = find_cgroups(root, "cpu");
  for (const auto& folder : groups.v2)
    if (const auto line = first_line(folder / "cpu.max")) {  // "max 100000" or "150000 100000"
      const auto space = line->find(' ');
      const auto quota = to_number(*line);
      if (quota && space != std::string::npos)
        limit(*quota, to_number(std::string_view(*line).substr(space + 1)).value_or(0));
    }
  for (const auto& folder : groups.v1)
    limit(read_number(folder / "cpu.cfs_quota_us").value_or(-1), read_number(folder / "cpu.cfs_period_us").value_or(0));
  return static_cast<int>(cores);
}

std::optional<std::uint64_t> meminfo_available(const fs::path& root) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view key = "MemAvailable:";
    if (!line.starts_with(key)) continue;
    const auto digits = line.find_first_not_of(' ', key.size());
    if (digits == std::string::npos) return std::nullopt;
    const auto kilobytes = to_number(std::string_view(line).substr(digits));
    if (kilobytes && *kilobytes >= 0) return static_cast<std::uint64_t>(*kilobytes) * 1024;
  }
  return std::nullopt;
}

/// The processors this process may run on.
std::vector<int> affinity() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &mask)) cpus.push_back(cpu);
  } else {  // more processors than the mask has room for
    const int count = static_cast<int>(std::thread::hardware_concurrency());
    for (int cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

/// Those of `cpus` that `list` ("0-3,8") names.
std::vector<int> listed(std::string_view list, const std::vector<int>& cpus) {
  std::vector<int> found;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const std::string_view range = list.substr(0, comma);
    const auto dash = range.find('-');
    const auto first = to_number(range);
    const auto last = dash == std::string_view::npos ? first : to_number(range.substr(dash + 1));
    if (first && last && *first >= 0)
      std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(found),
                   [&](int cpu) { return cpu >= *first && cpu <= *last; });
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return found;
}

}  // namespace

int usable_cores(const fs::path& root, const std::vector<int>& cpus) {
  std::set<std::pair<std::int64_t, std::int64_t>> cores;
  int unknown = 0;
  for (const int cpu : cpus) {
    const fs::path topology = root / fmt::format("sys/devices/system/cpu/cpu{}/topology", cpu);
    const auto package = read_number(topology / "physical_package_id");
    const auto core = read_number(topology / "core_id");
    if (package && core)
      cores.emplace(*package, *core);
    else
      ++unknown;
  }
  return std::max(1, std::min(static_cast<int>(cores.size()) + unknown, quota_cores(root)));
}

int usable_cores() { return usable_cores("/", affinity()); }

std::uint64_t available_memory(const fs::path& root) {
  std::optional<std::uint64_t> available = meminfo_available(root);
  const auto limit = [&](const fs::path& folder, const char* maximum, const char* current) {
    const auto most = read_number(folder / maximum);  // "max" is no number
    if (!most || *most < 0) return;
    const std::int64_t used = std::clamp<std::int64_t>(read_number(folder / current).value_or(0), 0, *most);
    const auto left = static_cast<std::uint64_t>(*most - used);
    available = std::min(available.value_or(left), left);
  };
  const auto groups = find_cgroups(root, "memory");
  for (const auto& folder : groups.v2) limit(folder, "memory.max", "memory.current");
  for (const auto& folder : groups.v1) limit(folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
  return available.value_or(0);
}

std::uint64_t available_memory() { return available_memory("/"); }

std::vector<numa_node> numa_nodes(const fs::path& root, const std::vector<int>& cpus) {
  std::vector<numa_node> nodes;
  std::error_code failed;
  constexpr std::string_view prefix = "node";
  for (fs::directory_iterator entry(root / "sys/devices/system/node", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::int64_t number = to_number(std::string_view(name).substr(prefix.size())).value_or(-1);
    const auto list = first_line(entry->path() / "cpulist");
    if (!list || number < 0) continue;
    numa_node node{static_cast<int>(number), listed(*list, cpus)};
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const numa_node& a, const numa_node& b) { return a.number < b.number; });
  return nodes;
}

std::vector<numa_node> numa_nodes() { return numa_nodes("/", affinity()); }

shard_placement place_shards(const std::vector<numa_node>& nodes, std::int32_t shards, int threads) {
  shard_placement placement;
  if (nodes.size() < 2 || shards < 2 || threads < shards) return placement;
  std::vector<std::vector<int>> cpus_of(static_cast<std::size_t>(shards));  // [shard]
  const auto count = static_cast<std::size_t>(shards);
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t first = s * nodes.size() / count;
    const std::size_t last = std::max(first + 1, (s + 1) * nodes.size() / count);
    std::vector<int>& own = placement.nodes.emplace_back();
    for (std::size_t n = first; n < last; ++n) {
      own.push_back(nodes[n].number);
      cpus_of[s].insert(cpus_of[s].end(), nodes[n].cpus.begin(), nodes[n].cpus.end());
    }
  }
  for (std::int64_t t = 0; t < threads; ++t)
    placement.cpus.push_back(cpus_of[static_cast<std::size_t>(t * shards / threads)]);
  return placement;
}

}  // namespace kvern::gpu::cpu
