#pragma once

#include <cstdint>

#include "numeric/kv_type.h"

namespace strata {

// Products of f32 matrices, C = start + A B, in pieces that a caller deals out to threads.
//
// The bits of one element c(m, n), at a given level:
//   s_b = sum of a(m, k) b(k, n) over the k of block b, one accumulator, k ascending, fused where
//         the level has FMA; block b holds k in [b kGemmDepth, (b + 1) kGemmDepth)
//   c   = ((start + s_0) + s_1) + ...   (start zero: c = (s_0 + s_1) + ...)
// so they depend neither on M and N nor on how the work is cut. k == 0: c = start.
// Err: |c - ref| <= (min(K, kGemmDepth) + K / kGemmDepth + 2) 2^-24 (|start| + sum |a b|).
// NaN and infinities go where the sums carry them: nothing is skipped for being zero.
// Src: Goto & van de Geijn 2008, "Anatomy of high-performance matrix multiplication" (blocking).

inline constexpr int64_t kGemmDepth = 384;

// Rows of the register tile: 6 rows of two vectors are 12 accumulators; with the two of b and one
// broadcast they use 15 of AVX2's 16 registers.
inline constexpr int kGemmRows = 6;

// What the first block's sum is added to.
enum class GemmStart : uint8_t {
  zero,  // c is not read
  bias,  // bias[n]; c is not read
  c,
};

// One block of depth for a rectangle of C. B comes in packed panels of GemmKernels::panel columns:
// panel p holds b(k, panel p + j) at b[p b_panel + k panel + j], zero past the last column.
// A is read in place (a_packed false): a(m, k) at a[m lda + k]; or from pack_a (true).
struct GemmTile {
  const float* a = nullptr;
  int64_t lda = 0;
  bool a_packed = false;
  const float* b = nullptr;
  int64_t b_panel = 0;
  float* c = nullptr;  // c(m, n) at c[m ldc + n]; overlaps no operand
  int64_t ldc = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;  // 1 <= depth <= kGemmDepth
  GemmStart start = GemmStart::zero;
  const float* bias = nullptr;  // [columns]
};

struct GemmKernels {
  int panel;  // columns of a packed panel
  // Packs b(k, n) = source[k ld + n] (k < depth, n < columns): one panel per `panel` columns,
  // panels out_panel floats apart. Elements are of a KvType (f16 and bf16 are exact in f32).
  void (*pack_b[3])(const void* source, int64_t ld, int64_t depth, int64_t columns, float* out,
                    int64_t out_panel) noexcept;
  // The same of b(k, n) = source[n ld + k].
  void (*pack_b_transposed[3])(const void* source, int64_t ld, int64_t depth, int64_t columns,
                               float* out, int64_t out_panel) noexcept;
  // Packs a(m, k) = source[k ld + m] for multiply: rows in groups of kGemmRows, a group after the
  // other, each [depth][kGemmRows], zero past the last row.
  void (*pack_a)(const float* source, int64_t ld, int64_t depth, int64_t rows, float* out) noexcept;
  void (*multiply)(const GemmTile& tile) noexcept;
};

}  // namespace strata
