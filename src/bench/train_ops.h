#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/result.h"
#include "ops/context.h"

namespace strata {

// The operations of a training step, each alone, in f32.
enum class TrainOp : uint8_t { nt, nn, tn, attention, norm, cross_entropy, adamw };
// "nt", "nn", "tn", "attention", "norm", "cross-entropy", "adamw", in the order of TrainOp.
const std::vector<std::string>& train_op_names();

// A linear layer's weight [out, in].
struct WeightShape {
  int64_t out = 0;
  int64_t in = 0;
};

struct TrainOpsCase {
  std::vector<TrainOp> ops;          // which, in this order
  int64_t rows = 4096;               // M of products: tokens of a step
  std::vector<WeightShape> weights;  // of products: qkv, attention's output and the MLP of a GPT
  int64_t tokens = 4096;             // T of attention, one causal sequence
  int heads = 8;
  int head_size = 64;
  int64_t width = 384;          // of norms and of the head's input
  int64_t vocabulary = 50'257;  // of cross-entropy

  TrainOpsCase();  // everything, at the shapes of a GPT 384 wide
};

// Results by `what`, of each the median and its share of the limit that binds:
//   gemm_nt, gemm_nn, gemm_tn  y = x w^T, d_x = d_y w, d_w = d_y^T x; GFLOP/s of 2 M out in
//   train_attention_forward    GFLOP/s of 2 T T Dh H: the visible half of q k^T and of p v
//   train_attention_backward   GFLOP/s of 5 T T Dh H: its five products, q k^T made again among
//   them
//                              Both carry peak_bytes, what the process held at most above the
//                              operands while forward and backward ran (absent: not known).
//   rms_norm_forward, ...      GB/s of the bytes read; so cross_entropy (logits that exist), adamw,
//                              gradient_norm
//   cross_entropy_head         GFLOP/s of the three products with [vocabulary, width]
// One run warms up, then `repeats` count. check is called between runs and may throw.
std::vector<Measurement> measure_train_ops(const TrainOpsCase& c, const OpContext& context,
                                           int repeats, const std::function<void()>& check = {});

}  // namespace strata
