#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/cpu.h"

namespace strata {

// For SetUp: skips the test at a level whose instructions this processor does not have. Machines
// that have them run it.
inline void need_isa_level(IsaLevel level) {
  const auto levels = available_isa_levels(detect_cpu_features());
  if (std::find(levels.begin(), levels.end(), level) == levels.end())
    GTEST_SKIP() << "this machine lacks " << isa_level_name(level);
}

// Deterministic values of both signs in (-range, range), none alike nearby.
inline std::vector<float> test_values(int64_t n, uint32_t seed, float range = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  uint32_t state = seed * 2654435761u + 12345;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * range;
  }
  return v;
}

}  // namespace strata
