#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "kernels/attention.h"
#include "ops/context.h"
#include "ops/key_bias.h"
#include "tensor/tensor.h"

namespace strata {

// Rows of the batch that belong to one sequence, and where its positions lie in the cache.
struct PagedRows {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
  std::span<const int32_t> pages;  // covers positions below first_position + rows
  // What these rows see, where it is less than the layer's window: as in PagedAttention.
  int64_t window = 0;  // 0: the layer's window and sinks
  int64_t sinks = 0;
};

// One layer's attention over a paged cache.
struct PagedAttention {
  KvType type = KvType::f16;
  int page_tokens = kDefaultPageTokens;
  std::byte* base = nullptr;  // the layer's part of page 0
  int64_t page_stride = 0;    // bytes from page to page
  int heads = 0;              // H, a multiple of kv_heads
  int kv_heads = 0;           // Hk
  int head_size = 0;          // Dh
  float scale = 1;            // of q . k
  int64_t window = 0;         // a query sees positions above its own - window; 0: all
  int64_t sinks = 0;          // and, with a window, the first so many whatever its own
  // The queries as they read sinks that the window has left behind: turned to another position than
  // q. No data: as q. Not for types that quantise.
  Tensor sink_q = {};
  float soft_cap = 0;  // c: a score s becomes c tanh(s / c); 0: none
  // Of the keys, which stay out of quantised pages; not looked at for other types. May be null.
  const KeyBias* key_bias = nullptr;
  // [Hk * Dh], none 0, or empty: quantised keys are multiplied by these before they are rotated,
  // and queries divided: scores are the same, and a key's error weighs less where its scale is
  // large.
  std::span<const float> key_scales = {};
  std::span<const PagedRows> sequences = {};
};

// Largest Dh of q8 and q4.
inline constexpr int kMaxQuantizedHead = 512;

// Memory between calls, so that a call of a size seen before allocates nothing. One per executor.
class PagedAttentionWorkspace {
 public:
  struct Unit {
    int32_t sequence = 0;
    int32_t kv_head = 0;
    int64_t first_row = 0, last_row = 0;      // of the sequence
    int64_t first_chunk = 0, last_chunk = 0;  // [first, last) of those it sees
    int64_t sink_chunks = 0;                  // chunks of sinks, before the window's
    int64_t gap = 0;                          // number of the first window chunk, minus that
    int32_t split = -1;                       // index of its pair among those cut by chunks
  };
  // A (sequence, KV head) whose chunks are dealt out to several units.
  struct Split {
    float* partials = nullptr;  // sums of one chunk after the other
    int64_t chunks = 0;
    int32_t units = 0;
  };
  std::vector<Unit> units;
  std::vector<Split> splits;
  std::unique_ptr<std::atomic<int32_t>[]> unfinished;  // units of each split
  size_t unfinished_size = 0;
  AlignedBuffer partials;
  std::vector<AlignedBuffer> scratch;  // by thread
};

// Appends the rows' k and v [N, Hk * Dh] to the cache, then y [N, H * Dh] = causal attention of q
// [N, H * Dh], defined chunk by chunk in kernels/attention.h: a row's result depends on its q and
// on its sequence's stored keys and values alone, bit for bit; neither on other rows, nor on how a
// prompt was cut into calls, nor on pages, threads or the split of the work. Sinks that lie apart
// from the window are chunks of their own, merged first and multiplied with sink_q.
//
// q8 and q4: keys (without their bias, times their scales) and values are rotated over the head
// before they are quantised, so that an outlier of one element is spread over all; queries
// likewise, and results are rotated back (AttentionKernels::rotate).
// Throws Error{invalid_argument} naming the operand when shapes do not match.
void paged_attention(const PagedAttention& a, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& y, PagedAttentionWorkspace& workspace, const OpContext& context);

}  // namespace strata
