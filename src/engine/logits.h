#pragma once

#include <cstdint>
#include <span>

#include "engine/request.h"

namespace strata {

// Passes over a row of logits [V]. Each result depends, at one ISA level, on the row alone.

// The largest value, of numbers.
float max_logit(std::span<const float> logits);

// The first index whose value is NaN or +infinity; -1: none.
int64_t find_broken_logit(std::span<const float> logits);

// Sum of e^((logit - best) / temperature), in f64; best is the largest.
double sum_of_exp(std::span<const float> logits, float best, double temperature);

// log softmax of the unmodified logits for `chosen` and the `top` best tokens (best first, of
// equals the lower id).
TokenLogprob token_logprobs(std::span<const float> logits, TokenId chosen, int top);

}  // namespace strata
