#pragma once

// Bodies of gemm.h, once for all levels; included by isa_<level>_gemm.cpp after its Vec.
#include <cstring>

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

template <class Element>
void pack_b(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
            int64_t out_panel) noexcept {
  for (int64_t n = 0; n < columns; n += kTileColumns, out += out_panel) {
    const int64_t width = smaller(kTileColumns, columns - n);
    const Element* from = static_cast<const Element*>(source) + n;
    float* to = out;
    for (int64_t k = 0; k < depth; ++k, from += ld, to += kTileColumns) {
      if (width == kTileColumns) {
        for (int j = 0; j < kTileColumns; j += kLanes) store(to + j, load_as_float(from + j));
      } else {
        for (int64_t j = 0; j < kTileColumns; ++j) to[j] = j < width ? to_float(from[j]) : 0.0f;
      }
    }
  }
}

template <class Element>
void pack_b_transposed(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
                       int64_t out_panel) noexcept {
  for (int64_t n = 0; n < columns; n += kTileColumns, out += out_panel) {
    const int64_t width = smaller(kTileColumns, columns - n);
    for (int64_t j = 0; j < kTileColumns; j += kLanes) {
      const Element* from = static_cast<const Element*>(source) + (n + j) * ld;
      const int64_t whole = width >= j + kLanes ? depth / kLanes * kLanes : 0;
      for (int64_t k = 0; k < whole; k += kLanes) {
        Vec square[kLanes];
        for (int i = 0; i < kLanes; ++i) square[i] = load_as_float(from + i * ld + k);
        transpose(square);
        for (int i = 0; i < kLanes; ++i) store(out + (k + i) * kTileColumns + j, square[i]);
      }
      for (int64_t k = whole; k < depth; ++k)
        for (int i = 0; i < kLanes; ++i)
          out[k * kTileColumns + j + i] = j + i < width ? to_float(from[i * ld + k]) : 0.0f;
    }
  }
}

void pack_a(const float* source, int64_t ld, int64_t depth, int64_t rows, float* out) noexcept {
  for (int64_t m = 0; m < rows; m += kGemmRows, out += depth * kGemmRows) {
    const float* from = source + m;
    if (m + kGemmRows <= rows) {
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(out + k * kGemmRows, from + k * ld, kGemmRows * sizeof(float));
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int r = 0; r < kGemmRows; ++r)
          out[k * kGemmRows + r] = m + r < rows ? from[k * ld + r] : 0.0f;
    }
  }
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

// A panel of B stays in the first-level cache while the rows of A, in the second, pass by it.
template <Left kLeft>
inline void multiply_panels(const GemmTile& t) {
  for (int64_t n = 0; n < t.columns; n += kTileColumns) {
    const float* b = t.b + n / kTileColumns * t.b_panel;
    const float* bias = t.bias == nullptr ? nullptr : t.bias + n;
    const int64_t width = smaller(kTileColumns, t.columns - n);
    for (int64_t m = 0; m < t.rows; m += kGemmRows) {
      const float* a = t.a + (kLeft == Left::rows ? m * t.lda : m * t.depth);
      for_rows(static_cast<int>(smaller(kGemmRows, t.rows - m)), [&]<int kRows>() {
        // Prefetched here, C is in the cache when the sums are done.
        if (t.start == GemmStart::c)
          for (int r = 0; r < kRows; ++r) __builtin_prefetch(t.c + (m + r) * t.ldc + n, 1);
        Tile<kRows> acc;
        clear<kRows>(acc);
        multiply_add<kLeft, kRows>(acc, a, kLeft == Left::rows ? t.lda : kGemmRows, b, kTileColumns,
                                   t.depth);
        write_tile<kRows>(acc, t, t.c + m * t.ldc + n, bias, width);
      });
    }
  }
}

void multiply(const GemmTile& tile) noexcept {
  if (tile.a_packed)
    multiply_panels<Left::columns>(tile);
  else
    multiply_panels<Left::rows>(tile);
}

constexpr GemmKernels kTable = {
    .panel = kTileColumns,
    .pack_b = {pack_b<F32>, pack_b<F16>, pack_b<BF16>},
    .pack_b_transposed = {pack_b_transposed<F32>, pack_b_transposed<F16>, pack_b_transposed<BF16>},
    .pack_a = pack_a,
    .multiply = multiply,
};

}  // namespace
}  // namespace strata
