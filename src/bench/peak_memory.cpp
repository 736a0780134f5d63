#include "bench/peak_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace strata {
namespace {

// The line "key:   123 kB", in bytes; -1 where there is none.
int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key + ":", 0) == 0) return 1024 * std::stoll(line.substr(key.size() + 1));
  return -1;
}

}  // namespace

PeakMemory::PeakMemory() {
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5";
  reset.close();
  if (reset) before_ = status_bytes("VmRSS");
}

int64_t PeakMemory::bytes() const {
  const int64_t peak = status_bytes("VmHWM");
  return before_ < 0 || peak < 0 ? -1 : std::max<int64_t>(peak - before_, 0);
}

}  // namespace strata
