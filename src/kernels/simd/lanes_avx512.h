#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/byte_in_halves.h"
#include "kernels/simd/strips.h"

// Sixteen lanes of 32 bits, two strips, on AVX-512 F, BW, DQ and VL; lanes_scalar.h says what each
// operation means.
namespace strata {
namespace {

constexpr int kStrips = 2;
constexpr int kLanes = 16;

using Floats = __m512;
using Ints = __m512i;   // 16 x i32
using Words = __m512i;  // 32 x i16
using Bytes = __m512i;  // 64 bytes

// As for avx2; here 8 vectors of codes and 16 sums fit the registers (16 tokens of Q8_0: 0.39 of
// the peak from a panel, 0.54 in one such tile).
constexpr int kTileTokens = 16;

STRATA_SIMD Floats f_zero() { return _mm512_setzero_ps(); }
STRATA_SIMD Floats f_load(const float* p) { return _mm512_loadu_ps(p); }
STRATA_SIMD void f_store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
STRATA_SIMD Floats f_broadcast(const float* p) { return _mm512_set1_ps(*p); }
STRATA_SIMD Floats f_set(float v) { return _mm512_set1_ps(v); }
STRATA_SIMD Floats f_add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
STRATA_SIMD Floats f_mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
STRATA_SIMD Floats f_fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
STRATA_SIMD Floats f_fnma(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
STRATA_SIMD Floats f_from_int(Ints v) { return _mm512_cvtepi32_ps(v); }

STRATA_SIMD __m128i load_8_bytes(Strips s) {  // from each
  return _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(s.first)),
                            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(s.first + s.apart)));
}
STRATA_SIMD __m256i load_16_bytes(Strips s) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s.first))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(s.first + s.apart)), 1);
}
STRATA_SIMD __m512i load_32_bytes(Strips s) {
  return _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.first))),
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.first + s.apart)), 1);
}
STRATA_SIMD Floats f_load_f32(Strips s) { return _mm512_castsi512_ps(load_32_bytes(s)); }
STRATA_SIMD Floats f_load_f16(Strips s) { return _mm512_cvtph_ps(load_16_bytes(s)); }
STRATA_SIMD Floats f_load_bf16(Strips s) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16_bytes(s)), 16));
}

STRATA_SIMD Ints i_zero() { return _mm512_setzero_si512(); }
STRATA_SIMD Ints i_add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
STRATA_SIMD Ints i_sub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
STRATA_SIMD Ints i_mul(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
STRATA_SIMD Ints i_high_of_pairs(Words v) { return _mm512_srai_epi32(v, 16); }
STRATA_SIMD Ints i_pair_dot(Words a, Words b) { return _mm512_madd_epi16(a, b); }

STRATA_SIMD Words w_add(Words a, Words b) { return _mm512_add_epi16(a, b); }
STRATA_SIMD Words w_broadcast_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, 4);
  return _mm512_set1_epi32(pair);
}
STRATA_SIMD Words w_set(int v) { return _mm512_set1_epi16(static_cast<int16_t>(v)); }
STRATA_SIMD Words w_spread_u8(Strips s) {
  const __m512i wide = _mm512_cvtepu8_epi32(load_8_bytes(s));
  return _mm512_or_si512(wide, _mm512_slli_epi32(wide, 16));
}
STRATA_SIMD Words w_spread_s8(Strips s) {
  const __m512i wide = _mm512_cvtepi8_epi32(load_8_bytes(s));
  return _mm512_or_si512(_mm512_and_si512(wide, _mm512_set1_epi32(0xffff)),
                         _mm512_slli_epi32(wide, 16));
}
template <int kByte>
STRATA_SIMD Words w_spread_byte(Bytes v) {
  return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(byte_in_halves(kByte)));
}
STRATA_SIMD Words w_low_of_pairs(Words a, Words b) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, a, b);
}
template <int kShift>
STRATA_SIMD Words w_shift_left(Words v) {
  return _mm512_slli_epi16(v, kShift);
}
template <int kShift>
STRATA_SIMD Words w_shift_right(Words v) {
  return _mm512_srli_epi16(v, kShift);
}
STRATA_SIMD void pin(__m512i& v) { asm("" : "+v"(v)); }
STRATA_SIMD Words w_and(Words a, Words b) { return _mm512_and_si512(a, b); }

STRATA_SIMD Bytes b_load(Strips s) { return load_32_bytes(s); }
STRATA_SIMD Bytes b_flip_signs(Bytes v) {
  return _mm512_xor_si512(v, _mm512_set1_epi8(static_cast<char>(-128)));
}
STRATA_SIMD Bytes b_or(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
template <int kShift, int kMask>
STRATA_SIMD Bytes b_take(Bytes v) {
  // Shifts of 16 bits carry bits over from the neighbour; the mask removes them.
  static_assert(kShift >= 0 ? kMask <= 255 >> kShift : (kMask & ((1 << -kShift) - 1)) == 0);
  if constexpr (kShift > 0) v = _mm512_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm512_slli_epi16(v, -kShift);
  return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(kMask)));
}
STRATA_SIMD Bytes b_table(const int8_t* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
STRATA_SIMD Bytes b_lookup(Bytes table, Bytes codes) { return _mm512_shuffle_epi8(table, codes); }

STRATA_SIMD Bytes broadcast_four(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
STRATA_SIMD Words w_dot_u8(Bytes w, const int8_t* x) {
  return _mm512_maddubs_epi16(w, broadcast_four(x));
}
// There is no vpsignb of 512 bits.
STRATA_SIMD Words w_dot_s8(Bytes w, const int8_t* x) {
  const __m512i four = broadcast_four(x);
  const __m512i turned =
      _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(w), _mm512_setzero_si512(), four);
  return _mm512_maddubs_epi16(_mm512_abs_epi8(w), turned);
}
#ifdef __AVX512VNNI__
STRATA_SIMD Ints i_add_dot_u8(Ints sum, Bytes w, const int8_t* x) {
  return _mm512_dpbusd_epi32(sum, w, broadcast_four(x));
}
#endif
// Two columns of bf16 of each row, side by side in its lane.
STRATA_SIMD Words w_load_column_pairs(Strips s) {
  // Of each strip: the first column's 8 rows, then the second's.
  const __m512i halves =
      _mm512_set_epi16(31, 23, 30, 22, 29, 21, 28, 20, 27, 19, 26, 18, 25, 17, 24, 16,  //
                       15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
  return _mm512_permutexvar_epi16(halves, load_32_bytes(s));
}
STRATA_SIMD Words w_load_last_column(Strips s) { return _mm512_cvtepu16_epi32(load_16_bytes(s)); }
#ifdef __AVX512BF16__
STRATA_SIMD Floats f_add_bf16_pair_dot(Floats sum, Words a, Words b) {
  return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}
#endif

STRATA_SIMD void prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}
STRATA_SIMD void prefetch_for_write(const float* p) { __builtin_prefetch(p, 1, 3); }

}  // namespace
}  // namespace strata
