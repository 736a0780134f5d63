#pragma once

// What products of f32 and of bf16 share: the walk over C in register tiles. Included by the bodies
// of gemm.h after their Vec.
#include "kernels/gemm.h"

namespace strata {
namespace {
// 12 sums: enough to hide the latency of one.
constexpr int kTileVecs = 2;
}  // namespace
}  // namespace strata
#include "kernels/tile.inl.h"

namespace strata {
namespace {

// body(n, width, panel) for each packed panel of B: its first column, how many it has of them, and
// where it lies.
template <class Body>
inline void for_panels(int64_t columns, float* out, int64_t out_panel, const Body& body) {
  for (int64_t n = 0; n < columns; n += kTileColumns, out += out_panel)
    body(n, smaller(kTileColumns, columns - n), out);
}

// The result of a full or partial tile goes to c; `start` points at its first column's start.
template <int kRows>
inline void write_tile(const Tile<kRows>& acc, const GemmTile& t, float* c, const float* bias,
                       int64_t width) {
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kTileVecs; ++j) {
      float* to = c + r * t.ldc + j * kLanes;
      const int64_t left = width - j * kLanes;
      if (left <= 0) break;
      const float* start = t.start == GemmStart::bias ? bias + j * kLanes : to;
      const bool add_start = t.start != GemmStart::zero;
      if (left >= kLanes) {
        store(to, add_start ? add(load(start), acc[r][j]) : acc[r][j]);
      } else {
        const int n = static_cast<int>(left);
        store_partial(to, add_start ? add(load_partial(start, n), acc[r][j]) : acc[r][j], n);
      }
    }
}

// sum.operator()<kRows>(acc, m, b) adds to acc the products of rows [m, m + kRows) of A and the
// panel b. A panel of B stays in the first-level cache while the rows of A, in the second, pass by
// it.
template <class Sum>
inline void for_tiles(const GemmTile& t, const Sum& sum) {
  for (int64_t n = 0; n < t.columns; n += kTileColumns) {
    const float* b = t.b + n / kTileColumns * t.b_panel;
    const float* bias = t.bias == nullptr ? nullptr : t.bias + n;
    const int64_t width = smaller(kTileColumns, t.columns - n);
    for (int64_t m = 0; m < t.rows; m += kGemmRows) {
      for_rows(static_cast<int>(smaller(kGemmRows, t.rows - m)), [&]<int kRows>() {
        // Prefetched here, C is in the cache when the sums are done.
        if (t.start == GemmStart::c)
          for (int r = 0; r < kRows; ++r) __builtin_prefetch(t.c + (m + r) * t.ldc + n, 1);
        Tile<kRows> acc;
        clear<kRows>(acc);
        sum.template operator()<kRows>(acc, m, b);
        write_tile<kRows>(acc, t, t.c + m * t.ldc + n, bias, width);
      });
    }
  }
}

}  // namespace
}  // namespace strata
