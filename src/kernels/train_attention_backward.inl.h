#pragma once

// Bodies of train_attention.h's backward; included after train_attention.inl.h.
#include "kernels/train_attention.inl.h"

namespace strata {
namespace {

void pack_queries(const AttentionPackQueries& a) noexcept {
  const int stride = packed_stride(a.head_size), padded = packed_head(a.head_size);
  const Vec factor = broadcast(a.scale * kLog2E);
  for (int64_t i = 0; i < a.queries; ++i) {
    const float* y = a.y + i * a.y_stride;
    float* d_y = a.out.d_y + i * stride;
    copy_padded(a.q + i * a.q_stride, a.head_size, padded, factor, a.out.q + i * stride);
    copy_padded(a.d_y + i * a.d_y_stride, a.head_size, padded, broadcast(1.0f), d_y);
    Vec delta = zero();
    int d = 0;
    for (; d + kLanes <= a.head_size; d += kLanes) delta = fma(load(y + d), load(d_y + d), delta);
    if (d < a.head_size) delta = fma(load_partial(y + d, a.head_size - d), load(d_y + d), delta);
    a.out.delta[i] = reduce_add(delta);
    a.out.max[i] = a.max[i];
    a.out.inverse_sum[i] =
        a.sum[i] == 0 ? 0 : first_lane(div(broadcast(1.0f), broadcast(a.sum[i])));
  }
}

constexpr int kBlock = kBackwardTokens;
constexpr int kBlockStride = kBlock + 16;
constexpr int kBlockGroups = kBlock / 6;

// sums[r][..] += acc[r][..]
template <int kRows>
inline void add_tile(const Tile<kRows>& acc, float* sums, int stride) {
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kTileVecs; ++j) {
      float* to = sums + r * stride + j * kLanes;
      store(to, add(load(to), acc[r][j]));
    }
}

// out [rows up to 6][..] = left rows . packed panel.
inline void dot_tile(const float* left, int stride, const float* panel, int depth, int rows,
                     float* out) {
  for_rows(rows, [&]<int kRows>() {
    Tile<kRows> acc;
    clear<kRows>(acc);
    multiply_add<Left::rows, kRows>(acc, left, stride, panel, kTileColumns, depth);
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kTileVecs; ++j) store(out + r * kBlockStride + j * kLanes, acc[r][j]);
  });
}

// Scores s and d_y . v of one query to its weights p and their gradients ds, in place: both zero
// outside what it sees. kept: the query's row, or bits == nullptr.
inline void weigh_row(float* s, float* ds, Seen seen, float max, float inverse_sum, float delta,
                      const KeptWeights& kept) {
  const Vec shift = broadcast(max), factor = broadcast(inverse_sum), d = broadcast(delta);
  const int from = seen.begin / kLanes * kLanes;
  const int to = (seen.end + kLanes - 1) / kLanes * kLanes;
  for (int t = from; t < to; t += kLanes) {
    const Vec p = mul(exp2_negative(sub(load(s + t), shift)), factor);
    if (kept.bits == nullptr) {
      store(s + t, p);
      store(ds + t, mul(p, sub(load(ds + t), d)));
    } else {
      const Vec mask = keep_lanes(broadcast(kept.scale), lane_bits(kept.bits, t));
      store(s + t, mul(p, mask));
      store(ds + t, mul(p, sub(mul(load(ds + t), mask), d)));
    }
  }
  for (int t = 0; t < seen.begin; ++t) s[t] = ds[t] = 0;
  for (int t = seen.end; t < kBlock; ++t) s[t] = ds[t] = 0;
}

// The first and past-the-last query of a block that see any of keys [key, key + 6).
inline Seen queries_of(const Seen* seen, int queries, int key) {
  const auto sees = [&](int i) { return seen[i].begin < key + 6 && seen[i].end > key; };
  Seen result{0, queries};
  while (result.begin < queries && !sees(result.begin)) ++result.begin;
  while (result.end > result.begin && !sees(result.end - 1)) --result.end;
  return result;
}

// d_k and d_v of the block's keys from one block of queries.
inline void add_key_gradients(const AttentionBackward& b, const Seen* seen, int64_t query,
                              int queries, const float* p, const float* ds) {
  const int stride = packed_stride(b.head_size), padded = packed_head(b.head_size);
  Seen rows[kBlockGroups];
  for (int g = 0; 6 * g < b.keys; ++g) rows[g] = queries_of(seen, queries, 6 * g);
  const auto add = [&](const float* weights, const float* right, float* sums) {
    for (int d = 0; d < padded; d += kTileColumns)
      for (int g = 0; 6 * g < b.keys; ++g) {
        const int first = rows[g].begin;
        if (rows[g].begin >= rows[g].end) continue;
        for_rows(b.keys - 6 * g, [&]<int kRows>() {
          Tile<kRows> acc;
          clear<kRows>(acc);
          multiply_add<Left::columns, kRows>(acc, weights + first * kBlockStride + 6 * g,
                                             kBlockStride, right + (query + first) * stride + d,
                                             stride, rows[g].end - first);
          add_tile<kRows>(acc, sums + 6 * g * stride + d, stride);
        });
      }
  };
  add(p, b.packed.d_y, b.d_v);
  add(ds, b.packed.q, b.d_k);
}

void attention_backward(const AttentionBackward& b) noexcept {
  const int stride = packed_stride(b.head_size), padded = packed_head(b.head_size);
  float* key_panels = b.scratch;
  float* value_panels = key_panels + int64_t{kBlock} * padded;
  float* key_rows = value_panels + int64_t{kBlock} * padded;
  float* p = key_rows + int64_t{kBlock} * stride;
  float* ds = p + int64_t{kBlock} * kBlockStride;
  pack_keys(b.k + b.first_key * b.k_stride, b.k_stride, 0, b.keys, b.head_size, key_panels);
  pack_keys(b.v + b.first_key * b.v_stride, b.v_stride, 0, b.keys, b.head_size, value_panels);
  for (int t = 0; t < b.keys; ++t)
    copy_padded(b.k + (b.first_key + t) * b.k_stride, b.head_size, padded, broadcast(1.0f),
                key_rows + t * stride);

  for (int64_t query = 0; query < b.queries; query += kBlock) {
    const auto queries = static_cast<int>(smaller(kBlock, b.queries - query));
    Seen seen[kBlock];
    Seen group_seen[kBlockGroups];
    Seen all;
    for (int i = 0; i < queries; ++i) {
      seen[i] = clip(b.begin[query + i], b.end[query + i], b.first_key, b.keys);
      group_seen[i / 6] = unite(group_seen[i / 6], seen[i]);
      all = unite(all, seen[i]);
    }
    if (all.end == 0) continue;

    for (int t = all.begin / kTileColumns * kTileColumns; t < all.end; t += kTileColumns)
      for (int i = 0; i < queries; i += 6) {
        if (group_seen[i / 6].end <= t || group_seen[i / 6].begin >= t + kTileColumns) continue;
        const int64_t row = (query + i) * stride;
        dot_tile(b.packed.q + row, stride, key_panels + t * b.head_size, b.head_size, queries - i,
                 p + i * kBlockStride + t);
        dot_tile(b.packed.d_y + row, stride, value_panels + t * b.head_size, b.head_size,
                 queries - i, ds + i * kBlockStride + t);
      }
    for (int i = 0; i < queries; ++i) {
      KeptWeights kept = b.kept;
      if (kept.bits != nullptr) kept.bits += (query + i) * kept.stride;
      weigh_row(p + i * kBlockStride, ds + i * kBlockStride, seen[i], b.packed.max[query + i],
                b.packed.inverse_sum[query + i], b.packed.delta[query + i], kept);
    }

    add_key_gradients(b, seen, query, queries, p, ds);
    for (int d = 0; d < padded; d += kTileColumns)
      for (int i = 0; i < queries; i += 6) {
        const Seen group = group_seen[i / 6];
        if (group.end == 0) continue;
        for_rows(queries - i, [&]<int kRows>() {
          Tile<kRows> acc;
          clear<kRows>(acc);
          multiply_add<Left::rows, kRows>(acc, ds + i * kBlockStride + group.begin, kBlockStride,
                                          key_rows + group.begin * stride + d, stride,
                                          group.end - group.begin);
          add_tile<kRows>(acc, b.d_q + (query + i) * stride + d, stride);
        });
      }
  }
}

void unpack(const float* sums, int64_t rows, int head_size, float factor, float* y,
            int64_t y_stride) noexcept {
  const Vec f = broadcast(factor);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = sums + i * packed_stride(head_size);
    float* to = y + i * y_stride;
    int d = 0;
    for (; d + kLanes <= head_size; d += kLanes) store(to + d, mul(load(from + d), f));
    if (d < head_size) store_partial(to + d, mul(load(from + d), f), head_size - d);
  }
}

constexpr TrainAttentionKernels kTable = {
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .forward = attention_forward,
    .pack_queries = pack_queries,
    .backward = attention_backward,
    .unpack = unpack,
};

}  // namespace
}  // namespace strata
