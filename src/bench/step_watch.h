#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "bench/serve_client.h"

namespace strata {

// One pass over the model on the server under load (GET /engine/steps/MODEL/NUMBER).
struct WatchedStep {
  struct Part {
    uint64_t request = 0;
    int choice = 0;
    int64_t rows = 0;
    std::string kind;  // "prompt", "token", "preempted", "swapped"
  };
  double begin = 0, seconds = 0;  // after the server's own start
  double cpu_seconds = 0;         // that the server has used by the step's end
  int running = 0, waiting = 0;   // requests
  int64_t padding_rows = 0;
  int64_t held_bytes = 0, cached_bytes = 0, needed_bytes = 0, contiguous_bytes = 0;
  int64_t wasted_bytes = 0;  // KvPool::waste_bytes of all running sequences
  std::vector<Part> parts = {};
};

// Collects the steps of a strata server while a load test runs; of other servers it gets none.
class StepWatcher {
 public:
  // Returns when the server has said where its steps stand.
  explicit StepWatcher(const ServeClientOptions& options);
  ~StepWatcher();
  StepWatcher(const StepWatcher&) = delete;
  StepWatcher& operator=(const StepWatcher&) = delete;
  // Ends the watch; the steps from construction on.
  std::vector<WatchedStep> finish();

 private:
  void watch(ServeClientOptions options);

  std::atomic<bool> stopping_{false};
  std::counting_semaphore<2> begun_{0};
  std::vector<WatchedStep> steps_;
  std::thread thread_;
};

// What is held for nothing, over what is held, both over time; NaN where nothing was held.
double wasted_share(const std::vector<WatchedStep>& steps);

// batch_timeline.png (which request had rows of what kind in which step), memory_efficiency.png
// (bytes that sequences hold, need, and would take contiguously), engine_load.png (requests that
// run and wait, cores busy) and engine_steps.csv into an existing folder. Throws Error naming the
// file.
void write_step_report(const std::filesystem::path& folder, const std::vector<WatchedStep>& steps);

}  // namespace strata
