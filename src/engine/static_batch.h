#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/policy.h"
#include "engine/sequence.h"

namespace strata {

struct StaticBatchOptions {
  Batching batching = Batching::continuous;
  bool length_buckets = false;  // only prompts of one power of two together: less padding
  int max_running = 64;         // sequences of a batch
  int64_t context = std::numeric_limits<int64_t>::max();  // positions a sequence can have
};

// Rows that nobody wants, in the next step: `rows` times `token` behind the `length` positions of
// `cache`.
struct PaddingRows {
  int32_t cache = -1;
  int64_t length = 0;
  int64_t rows = 0;
  TokenId token = 0;
};

// Static batching as textbooks have it: the first `max_running` sequences in line form a batch; all
// their prompts are read, then all of them generate, and the next batch begins when the last one
// has ended. Memory for all they can become is set aside at the start, so nobody is preempted.
//
// static_padded: every row of the batch is as long as the longest. A prompt shorter than the
// batch's longest is padded to its length, and an ended sequence is computed on until the last one
// ends. Padding lies in caches of its own or behind the ended sequence, so nobody sees it and
// answers are the same bytes. The attention of a padded prompt is over the padding alone: cheaper
// than the textbook's, which computes the masked scores too.
//
// With Batching::continuous everybody is in the batch and there is no padding.
class StaticBatch {
 public:
  StaticBatch(const StaticBatchOptions& options, KvPool& pool) : options_(options), pool_(pool) {}

  bool is_static() const { return options_.batching != Batching::continuous; }
  // Whether the request is of the batch at hand.
  bool holds(const ActiveRequest& request) const;
  // Forgets members that are not in `active` any more, and the padding when nobody runs.
  void update(std::span<const std::unique_ptr<ActiveRequest>> active, bool anybody_runs);
  // The batch is over, or there was none.
  bool empty() const { return members_.empty(); }
  // Makes the next batch of the first of `line`; of nobody else, if those do not fit together.
  void form(std::span<ActiveRequest* const> line);

  // Whether prompts of the batch, or their padding, are still to be read: nobody generates yet.
  bool reads(std::span<const std::unique_ptr<ActiveRequest>> active) const;
  // Positions to set aside for a sequence of a member.
  int64_t reserved_tokens(const ActiveRequest& request) const;
  // Pads the prompt of a member that was just given a cache and read none of it.
  void pad_prompt(const ActiveRequest& request);
  // A member's sequence has ended: takes over its cache when it is to be computed on, or gives it
  // back.
  void end(const ActiveRequest& request, const Sequence& sequence);

  // Decides on the padding of the next step, at most `room` rows: of prompts while they are read,
  // else a row of each ended sequence.
  void plan(int64_t room, bool reads);
  std::span<const PaddingRows> planned() const { return planned_; }
  // After the step has run.
  void finish_step();
  // Gives the padding's pages back; after a step that failed its lengths are unknown.
  void drop_padding();
  int64_t padding_rows() const { return padding_rows_; }  // computed in all

 private:
  struct Padding {
    int32_t cache = -1;
    int64_t length = 0;
    int64_t left = 0;  // of a prompt's padding; 0 for ended sequences
    TokenId token = 0;
    bool ended = false;  // an ended sequence, not a prompt's padding
  };
  bool pads() const { return options_.batching == Batching::static_padded; }
  bool fits(std::span<ActiveRequest* const> members) const;

  const StaticBatchOptions options_;
  KvPool& pool_;
  std::vector<uint64_t> members_;  // request ids
  int64_t longest_prompt_ = 0;     // of those that joined, tokens
  int64_t longest_answer_ = 0;
  std::vector<Padding> padding_;
  std::vector<PaddingRows> planned_;
  int64_t padding_rows_ = 0;
};

}  // namespace strata
