#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace strata {

// Draws the tokens of one choice. Holds what the penalties need to know of the tokens generated so
// far; the draw itself depends only on (logits, parameters, that history, uniform).
class Sampler {
 public:
  explicit Sampler(SamplingParams params) : params_(std::move(params)) {}

  // The next token from logits [V] by inverse CDF: the kept tokens in order of falling logit, then
  // rising id; the first whose cumulative share exceeds `uniform` in [0, 1). temperature 0: the
  // best token, the lowest id of equals. Does not record it. Logits must be free of NaN.
  TokenId draw(std::span<const float> logits, double uniform);
  // Counts a generated token for the penalties.
  void record(TokenId id);
  const SamplingParams& params() const { return params_; }

 private:
  struct Candidate {
    double logit;
    TokenId id;
  };
  bool penalises() const;
  void adjust(std::span<const float> logits);
  void keep_typical(double total);

  SamplingParams params_;
  std::unordered_map<TokenId, int64_t> counts_;
  std::vector<Candidate> candidates_;  // reused from draw to draw
};

// log softmax of the unmodified logits for `chosen` and the `top` best tokens (best first).
TokenLogprob token_logprobs(std::span<const float> logits, TokenId chosen, int top);

// The first index whose value is NaN or +infinity; -1: none.
int64_t find_broken_logit(std::span<const float> logits);

}  // namespace strata
