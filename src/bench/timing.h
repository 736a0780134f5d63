#pragma once

#include <chrono>

namespace strata {

// Seconds on a clock that only goes forward; differences mean something, values do not.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strata
