#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

// CPUs granted by a cgroup quota; nullopt where there is none. Texts that do not parse grant no
// limit: a wrong guess here must not stop the program.

// cgroup v2, `cpu.max`: "50000 100000" is half a CPU, "max 100000" no limit.
std::optional<double> parse_cpu_max(std::string_view text);
// cgroup v1, `cpu.cfs_quota_us` (-1: no limit) and `cpu.cfs_period_us`.
std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us);

// The groups of a process from /proc/self/cgroup: lines "ID:CONTROLLERS:PATH", v2 being "0::PATH".
struct CgroupPaths {
  std::optional<std::string> v2;
  std::optional<std::string> v1_cpu;  // of the hierarchy whose controllers include "cpu"
  std::string v1_controllers;         // of that hierarchy, "cpu,cpuacct": its mount's usual name
};
CgroupPaths parse_proc_cgroup(std::string_view text);

// The smallest quota of the group and its ancestors under `cgroup_root` (/sys/fs/cgroup). In a
// container PATH may not exist below the root, which then is the group itself.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& cgroup_root,
                                       const CgroupPaths& paths);

// The rule behind usable_threads().
int threads_for(int affinity_cpus, std::optional<double> cpu_limit);

}  // namespace strata
