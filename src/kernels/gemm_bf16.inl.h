#pragma once

// Bodies of gemm.h over pairs of bf16; included by isa_<level>_gemm.cpp of levels that multiply
// such pairs, after their Vec.
#include "kernels/gemm_tile.inl.h"

namespace strata {
namespace {

inline int64_t words(int64_t depth) { return (depth + 1) / 2; }

// Numbers k and k + 1 of kLanes neighbouring columns; of a last odd k that one alone.
template <class Element>
inline Pairs pairs_of_rows(const Element* from, int64_t ld, bool both) {
  return round_pairs(load_as_float(from), both ? load_as_float(from + ld) : zero());
}

template <class Element>
void pack_b(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
            int64_t out_panel) noexcept {
  for_panels(columns, out, out_panel, [&](int64_t n, int64_t width, float* panel) {
    const Element* from = static_cast<const Element*>(source) + n;
    float* to = panel;
    for (int64_t k = 0; k < depth; k += 2, from += 2 * ld, to += kTileColumns) {
      const bool both = k + 1 < depth;
      for (int64_t j = 0; j < kTileColumns; j += kLanes) {
        if (width >= j + kLanes) {
          store_pairs(to + j, pairs_of_rows(from + j, ld, both));
          continue;
        }
        float first[kLanes] = {}, second[kLanes] = {};
        for (int64_t i = 0; j + i < width; ++i) {
          first[i] = to_float(from[j + i]);
          if (both) second[i] = to_float(from[ld + j + i]);
        }
        store_pairs(to + j, round_pairs(load(first), load(second)));
      }
    }
  });
}

// Numbers [k, k + 2 kLanes) of a row, as far as it goes.
template <class Element>
inline Pairs pairs_along_row(const Element* from, int64_t left) {
  if (left >= 2 * kLanes)
    return round_neighbours(load_as_float(from), load_as_float(from + kLanes));
  float numbers[2 * kLanes] = {};
  for (int64_t i = 0; i < left; ++i) numbers[i] = to_float(from[i]);
  return round_neighbours(load(numbers), load(numbers + kLanes));
}

template <class Element>
void pack_b_transposed(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
                       int64_t out_panel) noexcept {
  for_panels(columns, out, out_panel, [&](int64_t n, int64_t width, float* panel) {
    for (int64_t j = 0; j < kTileColumns; j += kLanes) {
      const Element* from = static_cast<const Element*>(source) + (n + j) * ld;
      for (int64_t k = 0; k < depth; k += 2 * kLanes) {
        Vec square[kLanes];
        for (int i = 0; i < kLanes; ++i)
          square[i] =
              j + i < width ? as_vec(pairs_along_row(from + i * ld + k, depth - k)) : zero();
        transpose(square);
        float* to = panel + k / 2 * kTileColumns + j;
        const int64_t rows = smaller(kLanes, words(depth - k));
        for (int64_t i = 0; i < rows; ++i) store(to + i * kTileColumns, square[i]);
      }
    }
  });
}

void pack_a(const float* source, int64_t ld, int64_t depth, int64_t rows, float* out) noexcept {
  for (int64_t m = 0; m < rows; m += kGemmRows) {
    const int n = static_cast<int>(smaller(kGemmRows, rows - m));
    const float* from = source + m;
    for (int64_t k = 0; k < depth; k += 2, from += 2 * ld, out += kGemmRows) {
      const Vec second = k + 1 < depth ? load_partial(from + ld, n) : zero();
      store_partial(out, as_vec(round_pairs(load_partial(from, n), second)), kGemmRows);
    }
  }
}

void pack_a_rows(const float* source, int64_t ld, int64_t depth, int64_t rows,
                 float* out) noexcept {
  for (int64_t m = 0; m < rows; m += kGemmRows, out += words(depth) * kGemmRows)
    for (int r = 0; r < kGemmRows; ++r)
      for (int64_t k = 0; k < depth; k += 2 * kLanes) {
        float along[kLanes] = {};
        if (m + r < rows) {
          const auto* from = reinterpret_cast<const F32*>(source + (m + r) * ld + k);
          store_pairs(along, pairs_along_row(from, depth - k));
        }
        float* to = out + k / 2 * kGemmRows + r;
        const int64_t count = smaller(kLanes, words(depth - k));
        for (int64_t i = 0; i < count; ++i) to[i * kGemmRows] = along[i];
      }
}

void multiply(const GemmTile& tile) noexcept {
  for_tiles(tile, [&]<int kRows>(Tile<kRows>& acc, int64_t m, const float* b) {
    const float* a = tile.a + m * tile.depth;
    for (int64_t k = 0; k < tile.depth; ++k, a += kGemmRows, b += kTileColumns) {
      Pairs columns[kTileVecs];
      for (int j = 0; j < kTileVecs; ++j) columns[j] = load_pairs(b + j * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Pairs x = broadcast_pair(a + r);
        for (int j = 0; j < kTileVecs; ++j) acc[r][j] = add_pair_dot(acc[r][j], x, columns[j]);
      }
    }
  });
}

constexpr GemmKernels kTable = {
    .panel = kTileColumns,
    .word_numbers = 2,
    .pack_b = {pack_b<F32>, pack_b<F16>, pack_b<BF16>},
    .pack_b_transposed = {pack_b_transposed<F32>, pack_b_transposed<F16>, pack_b_transposed<BF16>},
    .pack_a = pack_a,
    .pack_a_rows = pack_a_rows,
    .multiply = multiply,
};

}  // namespace
}  // namespace strata
