#pragma once

#include <cstdint>
#include <vector>

namespace strata::ref {

struct AttentionResult {
  std::vector<double> y;      // [Dh]; zeros when nothing is visible
  double score_scale = 0;     // max over visible t of sum |scale q_d k_td|
  std::vector<double> value;  // [Dh]: sum over t of weight_t |v_td|
};

// Softmax attention of one query over visible positions [begin, end): no chunks, f64.
// keys, values: [T][Dh] f32. score_scale and value scale the error bound of the kernels.
AttentionResult attention(const float* q, const float* keys, const float* values, int head_size,
                          double scale, int64_t begin, int64_t end);

}  // namespace strata::ref
