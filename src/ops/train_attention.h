#pragma once

#include <cstdint>
#include <span>

#include "ops/context.h"
#include "ops/dropout.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// The queries of one sequence and the keys they may see, as rows of the batch's q and k, v.
// Self-attention: the same rows twice.
struct AttentionSequence {
  int64_t first_query = 0;
  int64_t queries = 0;
  int64_t first_key = 0;
  int64_t keys = 0;
};

// Who sees whom: row n of q sees keys [begin[n], end[n]) of its sequence, counted from the
// sequence's first key; none when begin >= end.
struct AttentionVisibility {
  std::span<const AttentionSequence> sequences;
  const int32_t* begin = nullptr;  // [rows of q]
  const int32_t* end = nullptr;
};

enum class AttentionMask : uint8_t { full, causal };

// Fills begin and end of the rows the sequences name. Causal: the last query sees all keys, each
// before it one less. window > 0: at most that many keys back, its own position included.
void attention_ranges(std::span<const AttentionSequence> sequences, AttentionMask mask,
                      int64_t window, int32_t* begin, int32_t* end);

struct AttentionHeads {
  int heads = 0;     // H, columns of q: H Dh
  int kv_heads = 0;  // Hk, divides H; columns of k and v: Hk Dh. Query head h reads h / (H / Hk)
  int head_size = 0;
  float scale = 1;
  // Of the weights, after softmax. The weight of row n of q and key t of its sequence in head h has
  // 16 of the bits of the Philox block with key = seed and counter {t / 8 + h 2^20, step, purpose
  // dropout | place << 4, n}: bits 16 (t % 2) on of word t % 8 / 2; kept where they are >=
  // round(p 2^16), so p is a multiple of 2^-16. At most 2^23 keys and 2^12 heads.
  DropoutMask dropout = {};
};

// y [N, H Dh] = softmax(scale q k^T) v per head; rows no sequence names are left alone. Saves what
// backward needs: max and sum, [H][max_stride], as kernels/train_attention.h defines them.
//
// Memory besides the operands: packed keys and values of the heads in flight (at most 64 MiB, or
// one head of one sequence). Bits depend on a sequence's rows alone, not on threads or the batch.
// Err: bounds in train_attention_test.cpp, from sums of Dh products and chunks of keys.
// Throws Error{invalid_argument} naming the operand that does not fit.
struct AttentionSaved {
  float* max = nullptr;
  float* sum = nullptr;
  int64_t stride = 0;  // floats from head to head, >= N
};
void train_attention_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionHeads& heads, const AttentionVisibility& visible,
                             const Tensor& y, const AttentionSaved& saved, Workspace& workspace,
                             const OpContext& context);

// The gradients of q, k and v, overwritten, from d_y and what forward left. Each KV head of each
// sequence is one thread's work, its query heads in order; memory per thread: five packed copies of
// a head of the longest sequence.
struct AttentionGradients {
  Tensor d_q, d_k, d_v;
};
void train_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionHeads& heads, const AttentionVisibility& visible,
                              const Tensor& y, const AttentionSaved& saved, const Tensor& d_y,
                              const AttentionGradients& out, Workspace& workspace,
                              const OpContext& context);

}  // namespace strata
