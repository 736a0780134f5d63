#include "base/thread_placement.h"

#include <sched.h>

namespace strata {
namespace {

// Where other programs keep the CPUs busy the scheduler may bring threads together again and again;
// moving costs some ten microseconds.
constexpr std::chrono::milliseconds kBetweenMoves{2};

}  // namespace

bool ThreadPlacement::taken(int cpu, int others) const noexcept {
  for (int i = 0; i < others; ++i)
    if (cpu_of(i) == cpu) return true;
  return false;
}

void ThreadPlacement::settle(int index) noexcept {
  const int cpu = sched_getcpu();
  if (cpu < 0) return;
  if (cpu_of(index) != cpu)
    places_[static_cast<size_t>(index)].cpu.store(cpu, std::memory_order_relaxed);
  if (taken(cpu, index)) move(index);
}

void ThreadPlacement::move(int index) noexcept {
  Place& place = places_[static_cast<size_t>(index)];
  const auto now = std::chrono::steady_clock::now();
  if (now - place.moved < kBetweenMoves) return;
  place.moved = now;
  // Where the kernel has more CPUs than cpu_set_t holds this fails and threads stay where they are.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const auto all = static_cast<int>(places_.size());
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || taken(cpu, all)) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    if (sched_setaffinity(0, sizeof(only), &only) != 0) return;
    place.cpu.store(cpu, std::memory_order_relaxed);
    sched_setaffinity(0, sizeof(allowed), &allowed);
    return;
  }
}

}  // namespace strata
