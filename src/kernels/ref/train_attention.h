#pragma once

#include <cstdint>
#include <vector>

namespace strata::ref {

// One head of one sequence, contiguous rows: q, d_y [queries][Dh], k, v [keys][Dh].
struct TrainAttentionArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* d_y = nullptr;  // nullptr: forward only
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
  int64_t queries = 0, keys = 0;
  int head_size = 0;
  double scale = 1;
};

struct TrainAttentionResult {
  std::vector<double> y, d_q, d_k, d_v;
  // Sums of the magnitudes of the terms of each result, for error bounds: sum p |v| and so on.
  std::vector<double> y_size, d_q_size, d_k_size, d_v_size;
  double score_size = 0;  // max over visible pairs of scale sum |q k|
};

// Softmax attention and its gradients as calculus gives them, f64, T x T in memory.
TrainAttentionResult train_attention(const TrainAttentionArgs& args);

}  // namespace strata::ref
