#include "base/cpu.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/cpu_quota.h"
#include "base/error.h"

namespace strata {
namespace {

constexpr CpuFeatures kHaswell = {.avx2 = true, .fma = true, .f16c = true};

TEST(IsaLevel, NamesAreReadBack) {
  for (int i = 0; i < kIsaLevelCount; ++i) {
    const auto level = static_cast<IsaLevel>(i);
    EXPECT_EQ(isa_level_from_name(isa_level_name(level)), level);
  }
  EXPECT_EQ(isa_level_from_name("AVX2"), std::nullopt);
}

TEST(IsaLevel, ALevelNeedsEveryFeature) {
  using Levels = std::vector<IsaLevel>;
  EXPECT_EQ(available_isa_levels({}), Levels{IsaLevel::scalar});
  EXPECT_EQ(available_isa_levels(kHaswell), (Levels{IsaLevel::scalar, IsaLevel::avx2}));
  CpuFeatures no_fma = kHaswell;
  no_fma.fma = false;
  EXPECT_EQ(available_isa_levels(no_fma), Levels{IsaLevel::scalar});
}

// What processors have: AVX-VNNI without AVX-512, VNNI without BF16, AVX-512 without AVX-VNNI.
TEST(IsaLevel, FeaturesAreNoLadder) {
  using Levels = std::vector<IsaLevel>;
  CpuFeatures alder_lake = kHaswell;
  alder_lake.avx_vnni = true;
  EXPECT_EQ(available_isa_levels(alder_lake),
            (Levels{IsaLevel::scalar, IsaLevel::avx2, IsaLevel::avx_vnni}));
  CpuFeatures skylake_server = kHaswell;
  skylake_server.avx512 = true;
  EXPECT_EQ(available_isa_levels(skylake_server),
            (Levels{IsaLevel::scalar, IsaLevel::avx2, IsaLevel::avx512}));
  CpuFeatures ice_lake = skylake_server;
  ice_lake.avx512_vnni = true;
  EXPECT_EQ(choose_isa_level(nullptr, ice_lake), IsaLevel::avx512_vnni);
  CpuFeatures zen_4 = ice_lake;
  zen_4.avx512_bf16 = true;
  EXPECT_EQ(choose_isa_level(nullptr, zen_4), IsaLevel::avx512_bf16);
  EXPECT_EQ(choose_isa_level("avx2", zen_4), IsaLevel::avx2);
  CpuFeatures sapphire_rapids = zen_4;
  sapphire_rapids.avx_vnni = true;
  EXPECT_EQ(available_isa_levels(sapphire_rapids).size(), size_t{kIsaLevelCount});
}

// The features a level needs are those whose instructions the compiler knows of this machine.
TEST(IsaLevel, AgreesWithTheCompilersDetection) {
  const CpuFeatures features = detect_cpu_features();
  EXPECT_EQ(features.avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(features.avx512,
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(features.avx512_vnni, features.avx512 && __builtin_cpu_supports("avx512vnni"));
}

TEST(IsaLevel, BestByDefaultAndOverridable) {
  EXPECT_EQ(choose_isa_level(nullptr, kHaswell), IsaLevel::avx2);
  EXPECT_EQ(choose_isa_level("", kHaswell), IsaLevel::avx2);
  EXPECT_EQ(choose_isa_level("scalar", kHaswell), IsaLevel::scalar);
  EXPECT_EQ(choose_isa_level(nullptr, {}), IsaLevel::scalar);
}

TEST(IsaLevel, ErrorsNameWhatThereIs) {
  const auto message = [](const char* wanted, const CpuFeatures& features) -> std::string {
    try {
      choose_isa_level(wanted, features);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("neon", kHaswell),
            "STRATA_ISA: \"neon\" is no instruction-set level; this machine has: scalar, avx2");
  EXPECT_EQ(message("avx2", {}),
            "STRATA_ISA: \"avx2\" is not usable on this machine; this machine has: scalar");
}

TEST(CpuQuota, CpuMaxOfVersion2) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("20000 10000"), 2.0);
  for (const char* bad : {"", "max", "1", "x 1", "5 0", "-5 100", "1 2 3"})
    EXPECT_EQ(parse_cpu_max(bad), std::nullopt) << bad;
}

TEST(CpuQuota, CfsQuotaOfVersion1) {
  EXPECT_EQ(parse_cfs_quota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("250000\n", "100000\n"), 2.5);
  EXPECT_EQ(parse_cfs_quota("", ""), std::nullopt);
}

TEST(CpuQuota, GroupsOfAProcess) {
  const CgroupPaths v2 = parse_proc_cgroup("0::/user.slice/app.scope\n");
  EXPECT_EQ(v2.v2, "/user.slice/app.scope");
  EXPECT_EQ(v2.v1_cpu, std::nullopt);
  const CgroupPaths v1 = parse_proc_cgroup(
      "12:cpuset:/a\n7:cpuacct,cpu:/docker/b:c\n3:memory:/d\nnonsense\n1:name=systemd:/e\n");
  EXPECT_EQ(v1.v2, std::nullopt);
  EXPECT_EQ(v1.v1_cpu, "/docker/b:c");
  EXPECT_EQ(v1.v1_controllers, "cpuacct,cpu");
}

class CgroupTree : public testing::Test {
 protected:
  CgroupTree()
      : root_(std::filesystem::temp_directory_path() /
              ("strata-cgroup-" + std::to_string(getpid()))) {}
  ~CgroupTree() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(CgroupTree, TheTightestAncestorCounts) {
  write("a/b/cpu.max", "800000 100000\n");
  write("a/cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("0::/a/b\n")), 3.0);
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("0::/elsewhere\n")), std::nullopt);
}

TEST_F(CgroupTree, AContainerSeesItsGroupAsTheRoot) {
  write("cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("0::/../../kubepods/pod1\n")), 1.0);
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("0::/not/mounted\n")), 1.0);
}

TEST_F(CgroupTree, Version1UnderEitherMountName) {
  write("cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("4:cpu,cpuacct:/x\n")), 4.0);
  write("cpu/y/cpu.cfs_quota_us", "50000\n");
  write("cpu/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_, parse_proc_cgroup("4:cpu,cpuacct:/y\n")), 0.5);
}

TEST(UsableThreads, AffinityAndQuotaBothLimit) {
  EXPECT_EQ(threads_for(8, std::nullopt), 8);
  EXPECT_EQ(threads_for(8, 2.9), 2);
  EXPECT_EQ(threads_for(2, 16.0), 2);
  EXPECT_EQ(threads_for(8, 0.25), 1);
  EXPECT_EQ(threads_for(0, std::nullopt), 1);
  EXPECT_GE(usable_threads(), 1);
}

}  // namespace
}  // namespace strata
