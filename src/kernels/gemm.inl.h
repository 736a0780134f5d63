#pragma once

// Bodies of gemm.h, once for all levels; included by isa_<level>_gemm.cpp after its Vec.
#include <cstring>

#include "kernels/gemm_tile.inl.h"

namespace strata {
namespace {

template <class Element>
void pack_b(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
            int64_t out_panel) noexcept {
  for_panels(columns, out, out_panel, [&](int64_t n, int64_t width, float* panel) {
    const Element* from = static_cast<const Element*>(source) + n;
    float* to = panel;
    for (int64_t k = 0; k < depth; ++k, from += ld, to += kTileColumns) {
      if (width == kTileColumns) {
        for (int j = 0; j < kTileColumns; j += kLanes) store(to + j, load_as_float(from + j));
      } else {
        for (int64_t j = 0; j < kTileColumns; ++j) to[j] = j < width ? to_float(from[j]) : 0.0f;
      }
    }
  });
}

template <class Element>
void pack_b_transposed(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
                       int64_t out_panel) noexcept {
  for_panels(columns, out, out_panel, [&](int64_t n, int64_t width, float* panel) {
    pack_transposed(static_cast<const Element*>(source) + n * ld, ld, depth, width, panel);
  });
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

template <Left kLeft>
inline void multiply_panels(const GemmTile& t) {
  for_tiles(t, [&]<int kRows>(Tile<kRows>& acc, int64_t m, const float* b) {
    const float* a = t.a + (kLeft == Left::rows ? m * t.lda : m * t.depth);
    multiply_add<kLeft, kRows>(acc, a, kLeft == Left::rows ? t.lda : kGemmRows, b, kTileColumns,
                               t.depth);
  });
}

void multiply(const GemmTile& tile) noexcept {
  if (tile.a_packed)
    multiply_panels<Left::columns>(tile);
  else
    multiply_panels<Left::rows>(tile);
}

constexpr GemmKernels kTable = {
    .panel = kTileColumns,
    .word_numbers = 1,
    .pack_b = {pack_b<F32>, pack_b<F16>, pack_b<BF16>},
    .pack_b_transposed = {pack_b_transposed<F32>, pack_b_transposed<F16>, pack_b_transposed<BF16>},
    .pack_a = pack_a,
    .pack_a_rows = nullptr,
    .multiply = multiply,
};

}  // namespace
}  // namespace strata
