#include "base/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "base/cpu.h"

namespace strata {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<int64_t> parse_integer(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ratio(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void keep_smaller(std::optional<double>& limit, std::optional<double> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// Calls visit(folder) for root/path and each of its parents down to root itself.
template <typename Visit>
void for_each_ancestor(const std::filesystem::path& root, const std::string& path, Visit visit) {
  std::filesystem::path relative = std::filesystem::path(path).relative_path().lexically_normal();
  // A path outside the namespace's root ("/../..") says nothing about folders below ours.
  if (!relative.empty() && *relative.begin() == "..") relative.clear();
  while (!relative.empty()) {
    visit(root / relative);
    relative = relative.parent_path();
  }
  visit(root);
}

int affinity_cpus() {
  // A fixed cpu_set_t holds 1,024 CPUs; the kernel answers EINVAL where it has more.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int status = sched_getaffinity(0, size, set);
    const int error = errno;
    const int count = status == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (status == 0) return count;
    if (error != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  text = trim(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return ratio(parse_integer(text.substr(0, space)), parse_integer(text.substr(space + 1)));
}

std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us) {
  return ratio(parse_integer(quota_us), parse_integer(period_us));
}

CgroupPaths parse_proc_cgroup(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {
    const size_t newline = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) paths.v2 = std::string(path);
    // Controllers are separated by commas; "cpuset" and "cpuacct" are others.
    if (("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos) {
      paths.v1_cpu = std::string(path);
      paths.v1_controllers = std::string(controllers);
    }
  }
  return paths;
}

std::optional<double> cgroup_cpu_limit(const std::filesystem::path& cgroup_root,
                                       const CgroupPaths& paths) {
  std::optional<double> limit;
  if (paths.v2) {
    for_each_ancestor(cgroup_root, *paths.v2, [&](const std::filesystem::path& folder) {
      keep_smaller(limit, parse_cpu_max(read_text(folder / "cpu.max")));
    });
  }
  if (paths.v1_cpu) {
    for (const std::string& mount : {paths.v1_controllers, std::string("cpu")}) {
      for_each_ancestor(
          cgroup_root / mount, *paths.v1_cpu, [&](const std::filesystem::path& folder) {
            keep_smaller(limit, parse_cfs_quota(read_text(folder / "cpu.cfs_quota_us"),
                                                read_text(folder / "cpu.cfs_period_us")));
          });
    }
  }
  return limit;
}

int threads_for(int affinity_cpus, std::optional<double> cpu_limit) {
  int threads = std::max(affinity_cpus, 1);
  if (cpu_limit && *cpu_limit < threads) threads = std::max(static_cast<int>(*cpu_limit), 1);
  return threads;
}

int usable_threads() {
  static const int threads = threads_for(
      affinity_cpus(),
      cgroup_cpu_limit("/sys/fs/cgroup", parse_proc_cgroup(read_text("/proc/self/cgroup"))));
  return threads;
}

}  // namespace strata
