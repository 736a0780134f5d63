#pragma once

#include <cstdint>
#include <functional>

#include "base/aligned.h"
#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// Causal self-attention of one sequence as the textbook writes it: all its weights, [H, T, T] f32
// (of a part of the queries [H, T, first_query + T]), exist from forward to backward. What flash
// attention is measured against: the same products (ops/gemm.h) and the same row kernels, no
// fusion.
class StandardAttention {
 public:
  struct Size {
    int heads = 1;
    int kv_heads = 1;  // divides heads
    int head_size = 64;
    int64_t tokens = 0;       // T: queries
    int64_t first_query = 0;  // their place among the keys, which are first_query + T
    int64_t keys() const { return first_query + tokens; }
  };
  // Allocates the weights. Throws Error{resource_exhausted} without memory.
  StandardAttention(const Size& size, const OpContext& context);

  // q, y [T, H Dh]; k, v [keys, Hk Dh]. `tick` is called between heads and may throw.
  void forward(const Tensor& q, const Tensor& k, const Tensor& v, float scale, const Tensor& y,
               const std::function<void()>& tick = {});
  // Of the last forward. d_k and d_v are overwritten, or added to where the queries are a later
  // part.
  void backward(const Tensor& q, const Tensor& k, const Tensor& v, float scale, const Tensor& d_y,
                const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                const std::function<void()>& tick = {});

  // What it allocates besides its operands, without the products' workspaces.
  static int64_t bytes(const Size& size);

 private:
  Tensor weights(int head) const;
  int group() const { return size_.heads / size_.kv_heads; }

  Size size_;
  OpContext context_;
  AlignedBuffer weights_;
  AlignedBuffer d_weights_;  // of one head
  Workspace workspace_;
};

}  // namespace strata
