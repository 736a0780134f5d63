#pragma once

// Bodies of train_attention.h's forward, once for all levels; included by
// isa_<level>_train_attention.cpp after its Vec.
#include "kernels/math.inl.h"
#include "kernels/train_attention.h"

namespace strata {
namespace {
// Panels of at most 16 keys or dimensions, which packed_head() counts in.
constexpr int kTileVecs = Vec::kLanes < 16 ? 2 : 1;
}  // namespace
}  // namespace strata
#include "kernels/tile.inl.h"

namespace strata {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
// The max of a query that has seen nothing: below any score, yet finite, as -inf - -inf is NaN.
constexpr float kNothing = -1e30f;

void pack_keys(const float* k, int64_t stride, int64_t first, int64_t tokens, int head_size,
               float* out) noexcept {
  for (int64_t t = first; t < first + tokens; t += kTileColumns)
    pack_transposed(reinterpret_cast<const F32*>(k) + t * stride, stride, head_size,
                    smaller(kTileColumns, first + tokens - t), out + t * head_size);
}

// n floats and zeros up to `padded`, times factor.
inline void copy_padded(const float* from, int n, int padded, Vec factor, float* to) {
  int d = 0;
  for (; d + kLanes <= n; d += kLanes) store(to + d, mul(load(from + d), factor));
  if (d < n) {
    store(to + d, mul(load_partial(from + d, n - d), factor));
    d += kLanes;
  }
  for (; d < padded; d += kLanes) store(to + d, zero());
}

void pack_values(const float* v, int64_t stride, int64_t first, int64_t tokens, int64_t keys,
                 int head_size, float* out) noexcept {
  const int padded = packed_head(head_size);
  for (int64_t t = first; t < first + tokens; ++t)
    for (int d = 0; d < padded; d += kTileColumns) {
      const auto width = static_cast<int>(smaller(larger(head_size - d, 0), kTileColumns));
      copy_padded(v + t * stride + d, width, kTileColumns, broadcast(1.0f),
                  out + (d * keys + t * kTileColumns));
    }
}

// The part of [begin, end) of each of `rows` queries that lies in keys [first, first + count), from
// `first` on, and the union of the parts; empty: begin == end == 0.
struct Seen {
  int begin = 0;
  int end = 0;
};
inline Seen clip(int32_t begin, int32_t end, int64_t first, int64_t count) {
  const auto b = static_cast<int>(larger(begin - first, 0));
  const auto e = static_cast<int>(smaller(end - first, count));
  return b < e ? Seen{b, e} : Seen{};
}
inline Seen unite(Seen a, Seen b) {
  if (a.end == 0) return b;
  if (b.end == 0) return a;
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

// Scores s[0..width), of which only [seen.begin, seen.end) count, to weights 2^(s - m), 0 outside.
inline void weigh_chunk(float* s, Seen seen, int from, int to, float& m, float& l) {
  for (int t = from; t < seen.begin; ++t) s[t] = -__builtin_inff();
  for (int t = seen.end; t < to; ++t) s[t] = -__builtin_inff();
  // An accumulator for each vector of a tile: the adder takes longer than a load.
  Vec largest[kTileVecs], sum[kTileVecs];
  for (int j = 0; j < kTileVecs; ++j) {
    largest[j] = broadcast(kNothing);
    sum[j] = zero();
  }
  for (int t = from; t < to; t += kTileColumns)
    for (int j = 0; j < kTileVecs; ++j) largest[j] = max(largest[j], load(s + t + j * kLanes));
  m = reduce_max(max(largest[0], largest[kTileVecs - 1]));
  const Vec shift = broadcast(m);
  for (int t = from; t < to; t += kTileColumns)
    for (int j = 0; j < kTileVecs; ++j) {
      const Vec w = exp2_negative(sub(load(s + t + j * kLanes), shift));
      store(s + t + j * kLanes, w);
      sum[j] = add(sum[j], w);
    }
  l = reduce_add(kTileVecs == 1 ? sum[0] : add(sum[0], sum[kTileVecs - 1]));
}

// Bits t .. t + kLanes of a row, from bit 0 on; t is a multiple of kLanes.
inline uint32_t lane_bits(const uint8_t* bits, int t) {
  if constexpr (kLanes == 16) return bits[t / 8] | static_cast<uint32_t>(bits[t / 8 + 1]) << 8;
  return static_cast<uint32_t>(bits[t / 8]) >> (t % 8);
}

// Weights [from, to) of a row whose first key has bit 0 of *bits; what is not kept becomes 0.
inline void drop_weights(float* weights, const uint8_t* bits, int from, int to) {
  for (int t = from; t < to; t += kLanes)
    store(weights + t, keep_lanes(load(weights + t), lane_bits(bits, t)));
}

// The memory of one block, all in the caller's scratch.
struct ForwardScratch {
  float* q;        // [kForwardQueries][stride], q'
  float* o;        // [kForwardQueries][stride]
  float* weights;  // [kForwardQueries][kWeightStride]
  float *m, *l, *keep, *take, *chunk_m, *chunk_l;
};
constexpr int kWeightStride = kForwardKeys + 16;

inline ForwardScratch carve(float* p, int stride) {
  ForwardScratch s{};
  s.q = p;
  s.o = s.q + int64_t{kForwardQueries} * stride;
  s.weights = s.o + int64_t{kForwardQueries} * stride;
  s.m = s.weights + int64_t{kForwardQueries} * kWeightStride;
  s.l = s.m + kForwardQueries;
  s.keep = s.l + kForwardQueries;
  s.take = s.keep + kForwardQueries;
  s.chunk_m = s.take + kForwardQueries;
  s.chunk_l = s.chunk_m + kForwardQueries;
  return s;
}

// m, l <- merged with the chunk's; keep and take are what the two parts of o are to be scaled by.
inline void merge_sums(const ForwardScratch& s) {
  for (int i = 0; i < kForwardQueries; i += kLanes) {
    const Vec old_m = load(s.m + i), chunk_m = load(s.chunk_m + i);
    const Vec m = max(old_m, chunk_m);
    const Vec keep = exp2_negative(sub(old_m, m));
    const Vec take = exp2_negative(sub(chunk_m, m));
    store(s.m + i, m);
    store(s.l + i, fma(load(s.l + i), keep, mul(load(s.chunk_l + i), take)));
    store(s.keep + i, keep);
    store(s.take + i, take);
  }
}

void attention_forward(const AttentionForward& b) noexcept {
  const int stride = packed_stride(b.head_size), padded = packed_head(b.head_size);
  const ForwardScratch s = carve(b.scratch, stride);
  const Vec factor = broadcast(b.scale * kLog2E);
  for (int i = 0; i < b.queries; ++i) {
    copy_padded(b.q + i * b.q_stride, b.head_size, padded, factor, s.q + i * stride);
    for (int d = 0; d < padded; d += kLanes) store(s.o + i * stride + d, zero());
  }
  for (int i = 0; i < kForwardQueries; ++i) {
    s.m[i] = s.chunk_m[i] = kNothing;
    s.l[i] = s.chunk_l[i] = 0;
  }
  constexpr int kGroups = kForwardQueries / 6;
  const int groups = (b.queries + 5) / 6;
  int64_t first_key = b.keys, last_key = 0;
  for (int i = 0; i < b.queries; ++i)
    if (b.begin[i] < b.end[i]) {
      first_key = smaller(first_key, b.begin[i]);
      last_key = larger(last_key, b.end[i]);
    }

  for (int64_t chunk = first_key / kForwardKeys * kForwardKeys; chunk < last_key;
       chunk += kForwardKeys) {
    const int64_t count = smaller(kForwardKeys, b.keys - chunk);
    Seen seen[kForwardQueries];
    Seen group_seen[kGroups];
    Seen all;
    for (int i = 0; i < b.queries; ++i) {
      seen[i] = clip(b.begin[i], b.end[i], chunk, count);
      group_seen[i / 6] = unite(group_seen[i / 6], seen[i]);
    }
    for (int g = 0; g < groups; ++g) all = unite(all, group_seen[g]);
    if (all.end == 0) continue;

    for (int t = all.begin / kTileColumns * kTileColumns; t < all.end; t += kTileColumns) {
      const float* keys = b.packed_keys + (chunk + t) * b.head_size;
      for (int g = 0; g < groups; ++g) {
        if (group_seen[g].end <= t || group_seen[g].begin >= t + kTileColumns) continue;
        for_rows(b.queries - 6 * g, [&]<int kRows>() {
          Tile<kRows> acc;
          clear<kRows>(acc);
          multiply_add<Left::rows, kRows>(acc, s.q + 6 * g * stride, stride, keys, kTileColumns,
                                          b.head_size);
          for (int r = 0; r < kRows; ++r)
            for (int j = 0; j < kTileVecs; ++j)
              store(s.weights + (6 * g + r) * kWeightStride + t + j * kLanes, acc[r][j]);
        });
      }
    }

    for (int i = 0; i < b.queries; ++i) {
      const Seen group = group_seen[i / 6];
      const int from = group.begin / kTileColumns * kTileColumns;
      const int to = (group.end + kTileColumns - 1) / kTileColumns * kTileColumns;
      float* weights = s.weights + i * kWeightStride;
      if (seen[i].end != 0) {
        weigh_chunk(weights, seen[i], from, to, s.chunk_m[i], s.chunk_l[i]);
        if (b.kept.bits != nullptr)
          drop_weights(weights, b.kept.bits + i * b.kept.stride + chunk / 8, from, to);
      } else {
        for (int t = from; t < to; ++t) weights[t] = 0;
        s.chunk_m[i] = kNothing;
        s.chunk_l[i] = 0;
      }
    }
    merge_sums(s);

    for (int d = 0; d < padded; d += kTileColumns) {
      const float* values = b.packed_values + d * b.keys + chunk * kTileColumns;
      for (int g = 0; g < groups; ++g) {
        const Seen group = group_seen[g];
        if (group.end == 0) continue;
        for_rows(b.queries - 6 * g, [&]<int kRows>() {
          Tile<kRows> acc;
          clear<kRows>(acc);
          multiply_add<Left::rows, kRows>(acc, s.weights + 6 * g * kWeightStride + group.begin,
                                          kWeightStride, values + group.begin * kTileColumns,
                                          kTileColumns, group.end - group.begin);
          for (int r = 0; r < kRows; ++r) {
            const Vec keep = broadcast(s.keep[6 * g + r]), take = broadcast(s.take[6 * g + r]);
            float* o = s.o + (6 * g + r) * stride + d;
            for (int j = 0; j < kTileVecs; ++j)
              store(o + j * kLanes, fma(load(o + j * kLanes), keep, mul(acc[r][j], take)));
          }
        });
      }
    }
  }

  for (int i = 0; i < b.queries; ++i) {
    const bool none = b.begin[i] >= b.end[i];
    const Vec inverse = none ? zero() : div(broadcast(b.kept.scale), broadcast(s.l[i]));
    float* y = b.y + i * b.y_stride;
    int d = 0;
    for (; d + kLanes <= b.head_size; d += kLanes)
      store(y + d, mul(load(s.o + i * stride + d), inverse));
    if (d < b.head_size)
      store_partial(y + d, mul(load(s.o + i * stride + d), inverse), b.head_size - d);
    b.max[i] = none ? 0 : s.m[i];
    b.sum[i] = none ? 0 : s.l[i];
  }
}

}  // namespace
}  // namespace strata
