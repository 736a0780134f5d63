#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/serve_exec.h"
#include "engine/step.h"
#include "engine/step_log.h"
#include "engine/swap_space.h"

namespace strata {

struct LoopOptions {
  SchedulerOptions scheduler;
  int queue = 256;
  int64_t context_length = 0;
  uint64_t memory_floor = 0;  // bytes; 0: none
  bool prefix_cache = true;
  int64_t swap_bytes = 0;   // 0: preempted sequences are always computed again
  std::string swap_folder;  // see SwapSpace
  std::vector<std::vector<TokenId>> shared_prefixes;
};

// The one thread that owns an executor. Each turn: take what was submitted and cancelled, let the
// scheduler plan one batch, run it, hand out the results.
class EngineLoop {
 public:
  EngineLoop(const Model& model, const Tokenizer& tokenizer, std::vector<TokenId> end_tokens,
             std::unique_ptr<ServeExec> exec, const LoopOptions& options);
  ~EngineLoop();  // cancels everything, joins
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  [[nodiscard]] Submit submit(GenerationRequest request, std::shared_ptr<ResultSink> sink,
                              uint64_t& request_id);
  void cancel(uint64_t request_id);
  EngineStats stats() const;
  void drain(double timeout_seconds);
  const StepLog& steps() const { return log_; }
  // Runs `work` on the loop's thread, between two steps, and returns when it is done; what it
  // throws is thrown here. Throws cancelled while the loop is ending. cache: nullptr without a
  // prefix cache.
  using PrefixWork = std::function<void(KvPool& pool, PrefixCache* cache)>;
  void with_prefixes(const PrefixWork& work);
  // Cancels everything and ends the thread; with_prefixes() then runs on its caller's.
  void end();
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }

 private:
  void run();
  bool turn();
  void take_submitted();
  void end_cancelled_and_late();
  void run_step();
  void run_orders();
  void log_step(double begin_seconds, double seconds);
  void fail_step(const char* message);
  void fail_turn(const char* message);
  void retire();
  void end_sequence(ActiveRequest& request, Sequence& sequence, FinishReason reason,
                    const char* error = "");
  void publish_stats();

  const Model& model_;
  const Tokenizer& tokenizer_;
  const std::vector<TokenId> end_tokens_;
  const std::unique_ptr<ServeExec> exec_;
  const LoopOptions options_;
  Step step_;

  // The loop thread's own.
  const std::unique_ptr<PrefixCache> prefix_cache_;  // may be nullptr
  const std::unique_ptr<SwapSpace> swap_;            // may be nullptr
  Scheduler scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> active_;  // by age
  uint64_t steps_ = 0, step_rows_ = 0;
  StepLog log_;
  std::vector<StepRecord::Part> log_parts_;  // of the step at hand
  double drained_ = 0;                       // requests that left the queue; old ones count less
  int64_t seen_admitted_ = 0;
  EngineClock::time_point drained_since_, memory_checked_;
  bool memory_low_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::unique_ptr<ActiveRequest>> submitted_;
  std::vector<uint64_t> cancelled_;
  std::vector<std::function<void()>> orders_;
  EngineStats stats_;
  int pending_ = 0;  // requests submitted and not done
  uint64_t next_id_ = 1;
  bool draining_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strata
