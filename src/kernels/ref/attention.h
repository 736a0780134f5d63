#pragma once

#include <cstdint>
#include <vector>

namespace strata::ref {

struct AttentionResult {
  std::vector<double> y;      // [Dh]; zeros when nothing is visible
  double score_scale = 0;     // max over visible t of sum |scale q_d k_td|
  std::vector<double> value;  // [Dh]: sum over t of weight_t |v_td|
};

// What a query sees: the positions below `end` that are from `begin` on or below `sinks`.
struct Visible {
  int64_t begin = 0, end = 0;
  int64_t sinks = 0;
  bool operator()(int64_t t) const { return t < end && (t >= begin || t < sinks); }
};

// Softmax attention of one query over what it sees: no chunks, f64. A soft cap c > 0 turns a score
// s into c tanh(s / c).
// keys, values: [T][Dh] f32. score_scale and value scale the error bound of the kernels.
AttentionResult attention(const float* q, const float* keys, const float* values, int head_size,
                          double scale, const Visible& visible, double soft_cap = 0);

}  // namespace strata::ref
