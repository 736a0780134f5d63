#pragma once

#include <string>

#include "bench/result.h"

namespace strata {

struct TrainCase {
  std::string preset = "shakespeare";
  int64_t batch = 0;    // sequences of a step; 0: the preset's
  int64_t context = 0;  // 0: the preset's
  // Tokens there are; 0: 66, Tiny Shakespeare's characters, or 50,257 of gpt2-124m.
  int64_t vocabulary = 0;
  double dropout = 0;
  std::string optimizer = "adamw";
  int threads = 1;
};

// Whole training steps (batch, forward, backward, clipping, update) on random tokens: tokens per
// second of each repeat, after one step that warms up. Their work counts 6 operations per
// parameter, tables of positions left out, and token; attention is not counted, so shares are not
// flattered.
Measurement measure_train(const TrainCase& c, int repeats);

}  // namespace strata
