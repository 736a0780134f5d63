#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/serve_exec.h"
#include "engine/step.h"

namespace strata {

struct LoopOptions {
  int max_running = 64;
  int batch_tokens = 512;
  int queue = 256;
  int64_t context_length = 0;
};

// The one thread that owns an executor. Each turn: take what was submitted and cancelled, admit
// what fits, build one batch (decode rows first, then prompt chunks, oldest first), run it, hand
// out the results. A sequence is admitted when the pages of its prompt and max_tokens can be
// reserved, so a running one never waits for memory.
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
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }

 private:
  void run();
  bool turn();
  void take_submitted();
  void end_cancelled_and_late();
  void admit();
  void build_step();
  void fail_step(const char* message);
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
  std::vector<std::unique_ptr<ActiveRequest>> active_;  // by priority, then age
  double drained_tokens_per_second_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<std::unique_ptr<ActiveRequest>> submitted_;
  std::vector<uint64_t> cancelled_;
  EngineStats stats_;
  int pending_ = 0;  // requests submitted and not done
  int unadmitted_ = 0;
  uint64_t next_id_ = 1;
  bool draining_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strata
