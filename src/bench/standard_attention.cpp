#include "bench/standard_attention.h"

#include <algorithm>

#include "ops/gemm.h"

namespace strata {
namespace {

constexpr int64_t kGrain = 16;  // rows worth another thread

int64_t head_bytes(const StandardAttention::Size& size) {
  return size.tokens * size.keys() * static_cast<int64_t>(sizeof(float));
}

// Columns of one head.
Tensor head_of(const Tensor& t, int head, int head_size) {
  Tensor part = t;
  part.columns = head_size;
  part.data = t.row<float>(0) + int64_t{head} * head_size;
  return part;
}

}  // namespace

StandardAttention::StandardAttention(const Size& size, const OpContext& context)
    : size_(size),
      context_(context),
      weights_(static_cast<size_t>(size.heads * head_bytes(size)), HugePages::advise),
      d_weights_(static_cast<size_t>(head_bytes(size)), HugePages::advise) {}

int64_t StandardAttention::bytes(const Size& size) {
  return (int64_t{size.heads} + 1) * head_bytes(size);
}

Tensor StandardAttention::weights(int head) const {
  const int64_t T = size_.tokens, keys = size_.keys();
  return {DType::f32, T, keys, keys, weights_.as<float>() + head * T * keys, -1};
}

void StandardAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                                const Tensor& y, const std::function<void()>& tick) {
  const int64_t T = size_.tokens, keys = size_.keys();
  const auto softmax = context_.kernels->rows->softmax;
  for (int h = 0; h < size_.heads; ++h) {
    if (tick) tick();
    const Tensor w = weights(h);
    const int kv = h / group();
    gemm_nt(head_of(q, h, size_.head_size), head_of(k, kv, size_.head_size), w, {}, workspace_,
            context_);
    context_.pool->parallel_for(T, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = w.row<float>(i);
        const int64_t seen = size_.first_query + i + 1;
        for (int64_t t = 0; t < seen; ++t) row[t] *= scale;
        softmax(row, seen, row);
        std::fill(row + seen, row + keys, 0.0f);
      }
    });
    gemm_nn(w, head_of(v, kv, size_.head_size), head_of(y, h, size_.head_size), {}, workspace_,
            context_);
  }
}

void StandardAttention::backward(const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                                 const Tensor& d_y, const Tensor& d_q, const Tensor& d_k,
                                 const Tensor& d_v, const std::function<void()>& tick) {
  const int64_t T = size_.tokens, keys = size_.keys();
  const auto softmax_backward = context_.kernels->train_rows->softmax_backward;
  const Tensor d_w{DType::f32, T, keys, keys, d_weights_.data(), -1};
  const int size = size_.head_size;
  for (int h = 0; h < size_.heads; ++h) {
    if (tick) tick();
    const Tensor w = weights(h);
    const int kv = h / group();
    // To what the group's first head gave, or an earlier part.
    const bool adds = h % group() != 0 || size_.first_query > 0;
    gemm_tn(w, head_of(d_y, h, size), head_of(d_v, kv, size), {.accumulate = adds}, workspace_,
            context_);
    gemm_nt(head_of(d_y, h, size), head_of(v, kv, size), d_w, {}, workspace_, context_);
    context_.pool->parallel_for(T, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = d_w.row<float>(i);
        const int64_t seen = size_.first_query + i + 1;
        softmax_backward(w.row<float>(i), row, seen, row);
        for (int64_t t = 0; t < seen; ++t) row[t] *= scale;
        std::fill(row + seen, row + keys, 0.0f);
      }
    });
    gemm_nn(d_w, head_of(k, kv, size), head_of(d_q, h, size), {}, workspace_, context_);
    gemm_tn(d_w, head_of(q, h, size), head_of(d_k, kv, size), {.accumulate = adds}, workspace_,
            context_);
  }
}

}  // namespace strata
