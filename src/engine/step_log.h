#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace strata {

// What one pass over the model was made of, and what its sequences held.
struct StepRecord {
  enum class Kind : uint8_t {
    prompt,     // rows of a prompt, or of a preempted sequence that is read again
    token,      // the newest token of a running sequence
    preempted,  // no rows: the sequence gave up its pages before this step, to be computed again
    swapped,    // no rows: likewise, and they were written to the swap space
  };
  struct Part {
    uint64_t request = 0;
    int32_t choice = 0;
    int32_t rows = 0;
    Kind kind = Kind::prompt;
  };

  uint64_t number = 0;       // of the step, from 1
  double begin_seconds = 0;  // after the engine's start
  double seconds = 0;
  int64_t padding_rows = 0;      // of static batches
  int running = 0, waiting = 0;  // requests, when the step was planned
  double cpu_seconds = 0;        // that the process has used by the step's end, all threads
  // Pages of running sequences and of the prefix cache alone; what the positions of the running
  // ones need; and what they would take if each had its prompt and its longest answer set aside at
  // once.
  int64_t held_bytes = 0, cached_bytes = 0, needed_bytes = 0, contiguous_bytes = 0;
  int64_t wasted_bytes = 0;   // KvPool::waste_bytes of all running ones
  int64_t swapped_bytes = 0;  // in the swap space
};

struct LoggedStep {
  StepRecord record;
  std::vector<StepRecord::Part> parts;
};

// The last steps, for pictures. Memory is taken once; adding a step allocates nothing. One thread
// adds, any may look.
class StepLog {
 public:
  static constexpr size_t kSteps = 4096, kParts = 65'536;

  StepLog() : records_(kSteps), firsts_(kSteps), counts_(kSteps), parts_(kParts) {}
  // Numbers the step.
  void add(const StepRecord& record, std::span<const StepRecord::Part> parts);
  // Steps with a larger number than `number`, as far as they are still known, at most `most`.
  std::vector<LoggedStep> since(uint64_t number, size_t most) const;
  uint64_t last() const;
  // After the log's construction: the clock of begin_seconds.
  double seconds() const;

 private:
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  uint64_t steps_ = 0, all_parts_ = 0;
  std::vector<StepRecord> records_;  // rings
  std::vector<uint64_t> firsts_;     // number of a record's first part among all there ever were
  std::vector<size_t> counts_;
  std::vector<StepRecord::Part> parts_;
};

}  // namespace strata
