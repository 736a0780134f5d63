#pragma once

#include <cstdint>

namespace strata {

// In which order prompts are read. Under each, a key that has had more tokens than others stands
// back, and what waits moves forward with time, so that nothing starves (constants of
// scheduler.h).
enum class Policy : uint8_t {
  fcfs,      // first come, first served; `priority` of requests is refused by the API
  sjf,       // the fewest tokens left to read and generate first
  priority,  // the highest priority first, then first come
};

// Who runs together. The static kinds are the textbooks' baseline to measure the other against: see
// static_batch.h.
enum class Batching : uint8_t {
  continuous,      // sequences join and leave at every step
  static_padded,   // a batch ends before the next begins; all its rows are as long as the longest
  static_dropped,  // likewise, but nothing is computed that nobody wants
};

// How a sequence that gave up its pages gets its keys and values back.
enum class Preemption : uint8_t {
  cheaper,    // by whichever of the two takes less time, as measured
  recompute,  // its tokens pass through the model once more
  swap,       // they are written to a file and read back, as long as there is room
};

}  // namespace strata
