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

// Tables that round to bf16 (gemm_bf16.inl.h) multiply two numbers at a time, where the level has
// an instruction for it: over pairs of k in order
//   s = fma(a(m, k + 1), b(k + 1, n), s);  s = fma(a(m, k), b(k, n), s)
// operands rounded to bf16 (to nearest even, subnormal numbers to zero), sums in f32.
// Err: as above, with 2^-8 (2 + 2^-8) sum |a b| more.
// What they pack is words of 32 bits that hold the two numbers: where panels, pack_a's rows and
// depth are counted below, they count words, ceil(depth / 2), with zero above a last odd number.

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
  int64_t depth = 0;  // 1 <= depth <= kGemmDepth; words
  GemmStart start = GemmStart::zero;
  const float* bias = nullptr;  // [columns]
};

struct GemmKernels {
  int panel;         // columns of a packed panel
  int word_numbers;  // 1, or 2: a word is a pair of bf16
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
  // The same of a(m, k) = source[m ld + k]; nullptr where multiply reads such an A in place.
  void (*pack_a_rows)(const float* source, int64_t ld, int64_t depth, int64_t rows,
                      float* out) noexcept;
  void (*multiply)(const GemmTile& tile) noexcept;
};

// Words of `depth` numbers.
inline constexpr int64_t gemm_words(const GemmKernels& kernels, int64_t depth) {
  return (depth + kernels.word_numbers - 1) / kernels.word_numbers;
}

}  // namespace strata
