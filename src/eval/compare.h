#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/exec.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace strata {

// How far the next-token distributions of two executors are apart on one text.
struct Divergence {
  double mean_kl = 0;  // nats, KL(reference || tested), over all positions
  double largest_kl = 0;
  double same_best = 0;  // share of positions with the same best token
  int64_t positions = 0;
};
// One pass of each over `tokens`, logits a few rows at a time.
Divergence compare_distributions(Exec& reference, Exec& tested, const Model& model,
                                 std::span<const TokenId> tokens);

// One position at which the model's best token is not the one of a given text.
struct GreedyMiss {
  int64_t index = 0;  // into the continuation
  TokenId expected = kNoToken;
  TokenId best = kNoToken;
  double gap = 0;  // logit of best - logit of expected
};
// Teacher-forced: one pass over prompt + continuation; the best token (lowest id first) at each
// place of the continuation compared with the one there.
std::vector<GreedyMiss> check_greedy(Exec& exec, const Model& model,
                                     std::span<const TokenId> prompt,
                                     std::span<const TokenId> continuation);

}  // namespace strata
