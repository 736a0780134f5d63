#pragma once

#include <cstdint>

namespace strata {

// How much more memory the process came to hold than at the construction of this, at its highest,
// as the kernel counts it (VmHWM of /proc/self/status, reset by /proc/self/clear_refs).
class PeakMemory {
 public:
  PeakMemory();
  // Bytes; -1 where the kernel does not tell.
  int64_t bytes() const;

 private:
  int64_t before_ = -1;
};

}  // namespace strata
