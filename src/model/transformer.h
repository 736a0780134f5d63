#pragma once

#include <span>
#include <vector>

#include "model/block.h"

namespace strata {

// A decoder-only transformer as the forward pass needs it: weights by reference, layers in order.
struct Transformer {
  Embedding embedding;
  std::vector<BlockWeights> blocks;        // L
  std::vector<BlockConfig> block_configs;  // L
  Norm output_norm;
  Linear head;  // [V, D]; shares the embedding's WeightRef when tied
};

// Tokens to the last block's output: [N, D], before the output norm. Calls ex.begin(batch).
Tensor forward_hidden(Exec& ex, const Transformer& model, const Batch& batch);
// Of the named rows alone, in that order: [rows.size(), D], the same bits with less work.
Tensor forward_hidden(Exec& ex, const Transformer& model, const Batch& batch,
                      std::span<const int32_t> rows);
// Logits [rows.size(), V] of the named rows of `hidden`, in that order.
Tensor forward_logits(Exec& ex, const Transformer& model, const Tensor& hidden,
                      std::span<const int32_t> rows);

}  // namespace strata
