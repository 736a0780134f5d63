#pragma once

#include <cstdint>

#include "bench/result.h"
#include "train/train_config.h"

namespace strata {

struct TrainCase {
  TrainConfig config;
  // Tokens there are: Tiny Shakespeare's characters with [UNK], or GPT-2's 50,257.
  int64_t vocabulary = 66;
  int threads = 1;
};

// Whole training steps (batch, forward, backward, clipping, update) on random tokens: tokens per
// second of each repeat, after one step that warms up. Their work counts 6 operations per
// parameter, tables of positions left out, and token; attention is not counted, so shares are not
// flattered.
Measurement measure_train(const TrainCase& c, int repeats);

}  // namespace strata
