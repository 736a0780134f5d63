#pragma once

#include <cstdint>

namespace strata {

// Attention for training, f32, one head at a time: a forward that keeps (max, sum) of each query
// and a backward that recomputes the weights from them. Memory is O(T); nothing is T x T.
//
// Query i sees keys [begin[i], end[i]) of its sequence (none: its output and gradients are zero,
// and it gives keys and values none). With c = scale log2 e and q'_i = c q_i, both rounded to f32:
//
//   s_it = q'_i . k_t                               products added in order of dimension
//   Forward: over chunks of kForwardKeys keys, aligned to the sequence's start, as in attention.h:
//     m_c = max s_it,  w_t = 2^(s_it - m_c),  l_c = sum w_t,  o_c = sum w_t v_t  in order of t,
//     merged from left to right; y = o / l. `max` is in units of log2, `sum` relative to it.
//   Backward: p_it = 2^(s_it - max_i) / sum_i,  delta_i = d_y_i . y_i,
//     ds_it = p_it (d_y_i . v_t - delta_i)
//     d_v_t = sum_i p_it d_y_i    d_k_t = ln 2 sum_i ds_it q'_i    d_q_i = scale sum_t ds_it k_t
//     summed within blocks of kBackwardTokens queries or keys (aligned to the sequence's start) in
//     order, and over the blocks in order; the query heads of a group one after the other.
//   With dropout (KeptWeights) p_it takes part in y and d_v times m_it, 0 or 1 / (1 - probability),
//     and ds_it = p_it (m_it d_y_i . v_t - delta_i); sum and max are those of all weights.
//
// So a result depends on its sequence alone, not on threads or on other sequences. What a query
// does not see enters its sums as weight zero, so an infinite or NaN value within the block of a
// visible one does reach it. Src: Dao et al. 2022 (arXiv:2205.14135); Dao 2023 (arXiv:2307.08691),
// algorithms 1 and 2.

inline constexpr int kForwardQueries = 48;  // rows of a block: a multiple of the register tile's 6
inline constexpr int kForwardKeys = 128;
inline constexpr int kBackwardTokens = 96;  // a multiple of the tile's 6 rows and 16 columns

// Head sizes rounded up to whole panels of 16, and the floats from row to row of packed rows: a
// further panel, so that rows do not all fall into the same sets of a cache.
inline constexpr int packed_head(int head_size) { return (head_size + 15) / 16 * 16; }
inline constexpr int packed_stride(int head_size) { return packed_head(head_size) + 16; }

// Which weights dropout keeps: key t of a row has bit t % 8 of byte t / 8.
struct KeptWeights {
  const uint8_t* bits = nullptr;  // row i at bits + i stride; nullptr: all are kept
  int64_t stride = 0;             // even: kernels read the bits of 16 keys at a time
  float scale = 1;                // of what is kept: 1 / (1 - probability)
};

// One block of up to kForwardQueries queries of one head.
struct AttentionForward {
  const float* q = nullptr;  // row i at q + i q_stride
  int64_t q_stride = 0;
  int queries = 0;
  const int32_t* begin = nullptr;  // [queries], 0 <= begin, end <= keys
  const int32_t* end = nullptr;
  const float* packed_keys = nullptr;  // of the whole sequence
  const float* packed_values = nullptr;
  int64_t keys = 0;
  int head_size = 0;
  float scale = 1;
  KeptWeights kept;  // [queries], keys counted from the sequence's first
  float* y = nullptr;
  int64_t y_stride = 0;
  float* max = nullptr;  // [queries]; 0 where nothing is visible
  float* sum = nullptr;  // [queries]; 0 where nothing is visible
  float* scratch = nullptr;
};
inline constexpr int64_t forward_scratch_floats(int head_size) {
  return int64_t{kForwardQueries} * (2 * packed_stride(head_size) + kForwardKeys + 16 + 8);
}

// What backward reads of one query, packed once per head: rows of packed_stride floats, zero past
// the head.
struct PackedQueries {
  float* q = nullptr;            // q'
  float* d_y = nullptr;          //
  float* max = nullptr;          // [queries]
  float* inverse_sum = nullptr;  // [queries]; 0 where nothing is visible
  float* delta = nullptr;        // [queries]
};

struct AttentionPackQueries {
  const float* q = nullptr;
  const float* y = nullptr;
  const float* d_y = nullptr;
  int64_t q_stride = 0, y_stride = 0, d_y_stride = 0;
  const float* max = nullptr;
  const float* sum = nullptr;
  int64_t queries = 0;
  int head_size = 0;
  float scale = 1;
  PackedQueries out;
};

// One block of up to kBackwardTokens keys against all queries of one head.
struct AttentionBackward {
  PackedQueries packed;
  int64_t queries = 0;
  const int32_t* begin = nullptr;  // [queries], positions in the sequence
  const int32_t* end = nullptr;
  const float* k = nullptr;  // row t of the sequence at k + t k_stride
  const float* v = nullptr;
  int64_t k_stride = 0, v_stride = 0;
  int64_t first_key = 0;  // a multiple of kBackwardTokens
  int keys = 0;
  int head_size = 0;
  KeptWeights kept;  // [queries], keys counted from first_key
  // Sums so far, rows of packed_stride floats: d_q [queries] (of the whole sequence, without its
  // factor), d_k and d_v [keys] (of this block, likewise).
  float* d_q = nullptr;
  float* d_k = nullptr;
  float* d_v = nullptr;
  float* scratch = nullptr;
};
inline constexpr int64_t backward_scratch_floats(int head_size) {
  // keys and values by panels, keys by rows, weights and their gradients
  return int64_t{kBackwardTokens} *
         (2 * packed_head(head_size) + packed_stride(head_size) + 2 * (kBackwardTokens + 16));
}

struct TrainAttentionKernels {
  // Keys first .. first + tokens of a sequence, transposed: panels of the level's tile (16 or 8
  // keys), each [head_size][panel], zero past the last key. `first` a multiple of 16; out is the
  // whole sequence's: packed_keys_floats(keys, head_size).
  void (*pack_keys)(const float* k, int64_t stride, int64_t first, int64_t tokens, int head_size,
                    float* out) noexcept;
  // Values, by panels of dimensions: [packed_head / panel][keys][panel].
  void (*pack_values)(const float* v, int64_t stride, int64_t first, int64_t tokens, int64_t keys,
                      int head_size, float* out) noexcept;
  void (*forward)(const AttentionForward& block) noexcept;
  void (*pack_queries)(const AttentionPackQueries& args) noexcept;
  void (*backward)(const AttentionBackward& block) noexcept;
  // y[i][0..head_size) = factor * sums[i]; rows of packed_stride in, of y_stride out.
  void (*unpack)(const float* sums, int64_t rows, int head_size, float factor, float* y,
                 int64_t y_stride) noexcept;
};
inline constexpr int64_t packed_keys_floats(int64_t keys, int head_size) {
  return (keys + 15) / 16 * 16 * head_size;
}
inline constexpr int64_t packed_values_floats(int64_t keys, int head_size) {
  return keys * packed_head(head_size);
}

}  // namespace strata
