#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/policy.h"
#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "engine/static_batch.h"
#include "engine/step_cost.h"
#include "engine/swap_space.h"

namespace strata {

struct SchedulerOptions {
  int max_running = 64;        // sequences in the batch
  int64_t batch_tokens = 512;  // rows of a step
  Policy policy = Policy::priority;
  Batching batching = Batching::continuous;
  bool length_buckets = false;                            // of static batches
  int64_t context = std::numeric_limits<int64_t>::max();  // positions a sequence can have
  Preemption preemption = Preemption::cheaper;
  double itl_target_seconds = 0.1;  // a step with running streams takes no longer, if it can
};

// Rows of one sequence in the next step: its next `rows` known tokens.
struct PlannedRows {
  ActiveRequest* request = nullptr;
  Sequence* sequence = nullptr;
  int64_t rows = 0;
};

// Decides what the next step computes, and who holds pages.
//
// A step's rows: first the newest token of every sequence that has just that left, in order of
// seniority; then chunks of prompts in order of the policy, under the budget of rows and, while
// others stream, of time. A sequence is admitted, which gives it a cache and what the prefix cache
// has of its tokens, when its first rows are planned and its known tokens fit beside those of the
// others. Pages are taken as sequences grow.
//
// When pages run out the most junior sequence that may be preempted gives up its own; it is waiting
// again. When there is room its known tokens are computed once more, or read back from the swap
// space, whichever is the faster: known when it is preempted, and asked again when it returns and
// the prefix cache may have a part of it. Seniority: priority, then age. After kMostPreemptions a
// sequence is admitted only when all it can ever need is reserved for it, and is never preempted
// again. The most senior sequence always finds pages, since it fits when it is alone; so everything
// ends, also in a pool of the smallest size.
//
// Static batching (static_batch.h) lets only the members of a batch in, and has rows of padding.
class Scheduler {
 public:
  static constexpr int kMostPreemptions = 3;
  // One unit of priority is worth this much waiting, and this many tokens of a key's excess over
  // the least served key with work.
  static constexpr double kAgeingSeconds = 5;
  static constexpr double kFairTokens = 2000;
  static constexpr double kMostExcessTokens = 20'000;
  // Under sjf a job that has waited a second counts as this much shorter.
  static constexpr double kSjfAgeingTokens = 100;
  // Half of what a key has had is forgotten after this time.
  static constexpr double kServedHalfLifeSeconds = 60;

  // cache: may be nullptr, and is where batches are static. swap: may be nullptr. All outlive the
  // scheduler.
  Scheduler(const SchedulerOptions& options, KvPool& pool, PrefixCache* cache,
            SwapSpace* swap = nullptr);

  // The next step's rows; pages for them are taken. Empty only when nothing can run.
  const std::vector<PlannedRows>& plan(std::span<const std::unique_ptr<ActiveRequest>> active,
                                       EngineClock::time_point now);
  // Rows of the same step that nobody wants; none unless batches are padded.
  std::span<const PaddingRows> padding() const { return batch_.planned(); }
  // After a planned step that failed, before its sequences are released.
  void step_failed() { batch_.drop_padding(); }
  // After the planned step has run in `seconds` and lengths have moved on.
  void finish_step(double seconds);
  // Gives back the pages of an ended sequence, also those in the swap space; what it holds in
  // memory stays in the prefix cache unless its step failed.
  void release(ActiveRequest& request, Sequence& sequence);

  // Who gave up its pages while the last step was planned.
  struct Preempted {
    uint64_t request = 0;
    int choice = 0;
    bool swapped = false;
  };
  std::span<const Preempted> preempted() const { return preempted_; }

  int64_t admitted() const { return admitted_; }  // requests
  int64_t preemptions() const { return preemptions_; }
  int64_t swaps() const { return swaps_; }  // preemptions that wrote to the swap space
  // Prompt tokens of admitted sequences that came out of the prefix cache, and the others.
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t computed_tokens() const { return computed_tokens_; }
  int64_t padding_rows() const { return batch_.padding_rows(); }

 private:
  struct Entry {
    ActiveRequest* request = nullptr;
    Sequence* sequence = nullptr;
    double rank = 0;  // smaller goes first
  };

  void collect(std::span<const std::unique_ptr<ActiveRequest>> active, EngineClock::time_point now);
  void forget_served(EngineClock::time_point now);
  double rank(const ActiveRequest& request, const Sequence& sequence,
              EngineClock::time_point now) const;
  bool is_senior(const Entry& a, const Entry& b) const;
  void form_batch(std::span<const std::unique_ptr<ActiveRequest>> active);
  void plan_single_rows();
  void plan_chunks(EngineClock::time_point now);
  bool may_start(const Entry& entry) const;
  bool admit(const Entry& entry, EngineClock::time_point now);
  int64_t take_known_part(const Entry& entry, int32_t cache);
  bool fits(int32_t cache, const Entry& entry) const;
  int64_t chunk_rows(const Entry& entry) const;
  bool grow_by_preempting(size_t index, int64_t rows);
  void preempt(size_t index);
  bool should_swap(const Entry& entry) const;
  double recompute_seconds(int32_t cache, int64_t from, int64_t to) const;
  std::optional<int64_t> read_back(const Entry& entry, int32_t cache, int64_t found);
  void drop_swapped(Sequence& sequence);
  static void begin_anew(ActiveRequest& request, const Sequence& sequence);
  void plan_rows(const Entry& entry, int64_t rows);
  int64_t seen(const Sequence& sequence) const;
  void keep_prefix(const ActiveRequest& request, const Sequence& sequence, bool whole);
  double& served(uint32_t key);

  const SchedulerOptions options_;
  KvPool& pool_;
  PrefixCache* const cache_;
  SwapSpace* const swap_;
  StepCost cost_;
  StaticBatch batch_;

  std::vector<PlannedRows> planned_;
  StepWork work_;  // of planned_
  bool reads_prompt_ = false;
  int64_t streaming_ = 0;       // single rows planned
  std::vector<Entry> running_;  // by seniority
  std::vector<Entry> reading_;  // waiting, or running with more than one token left, by rank
  std::vector<TokenId> known_;  // of the sequence at hand
  // The sequence that found too few pages, and how many there were: no use to try before there are
  // more.
  std::pair<uint64_t, int> blocked_{0, 0};  // request id, choice
  int64_t blocked_pages_ = 0;

  std::vector<Preempted> preempted_;

  std::vector<double> served_;  // tokens by key
  double least_served_ = 0;     // of keys with work
  EngineClock::time_point forgotten_;
  int64_t admitted_ = 0, preemptions_ = 0, swaps_ = 0, cached_tokens_ = 0, computed_tokens_ = 0;
};

}  // namespace strata
