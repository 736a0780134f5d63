#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "kernels/wide_twin/tables_for_test.h"
#include "support/isa_level_test.h"

namespace strata {

// Kernels that tests run on: those of a level, or of a twin of the 512-bit levels in plain C++.
struct TestedLevel {
  std::string name;
  IsaLevel needs;  // what the machine must have
  const KernelTable* kernels;
};
inline void PrintTo(const TestedLevel& level, std::ostream* out) { *out << level.name; }

inline std::vector<TestedLevel> tested_levels() {
  std::vector<TestedLevel> levels;
  for (int i = 0; i < kIsaLevelCount; ++i) {
    const auto level = static_cast<IsaLevel>(i);
    levels.push_back({std::string(isa_level_name(level)), level, &kernel_table(level)});
  }
  levels.push_back({"wide_twin", IsaLevel::scalar, &wide_twin()});
  levels.push_back({"wide_vnni_twin", IsaLevel::scalar, &wide_vnni_twin()});
  levels.push_back({"wide_bf16_twin", IsaLevel::scalar, &wide_bf16_twin()});
  return levels;
}

// Those this machine can run.
inline std::vector<TestedLevel> usable_levels() {
  const auto machine = available_isa_levels(detect_cpu_features());
  std::vector<TestedLevel> levels;
  for (const TestedLevel& level : tested_levels())
    if (std::find(machine.begin(), machine.end(), level.needs) != machine.end())
      levels.push_back(level);
  return levels;
}

// A test that runs for each of tested_levels().
class LevelTest : public ::testing::TestWithParam<TestedLevel> {
 protected:
  void SetUp() override { need_isa_level(GetParam().needs); }
  static const KernelTable& level_kernels() { return *GetParam().kernels; }
};
inline const auto name_of_level = [](const ::testing::TestParamInfo<TestedLevel>& p) {
  return p.param.name;
};

}  // namespace strata
