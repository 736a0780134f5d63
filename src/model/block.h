#pragma once

#include <optional>
#include <span>

#include "exec/exec.h"

namespace strata {

struct BlockWeights {
  Norm attn_norm;
  AttentionWeights attn;
  Linear attn_output;   // [D, H * Dh]
  Norm attn_post_norm;  // absent in most models
  Norm mlp_norm;
  MlpWeights mlp;
  Norm mlp_post_norm;
};

// What a block does beside its weights; layers of one model can differ (window, rope).
struct BlockConfig {
  AttentionConfig attention;
  Activation activation = Activation::silu;
};

// One transformer block, pre-norm with residuals: the only place that knows the order of its steps.
// x: [N, D]; the result has the same shape. `wanted`: only these rows go on behind attention, the
// last step that looks at other rows; the result is then [wanted.size(), D] (of the last block a
// prompt needs one row, or none).
Tensor block_forward(Exec& ex, const BlockWeights& w, const BlockConfig& c, int layer,
                     const Batch& batch, Tensor x,
                     std::optional<std::span<const int32_t>> wanted = std::nullopt);

}  // namespace strata
