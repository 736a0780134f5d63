#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/byte_in_halves.h"
#include "kernels/simd/strips.h"

// Eight lanes of 32 bits on AVX2, FMA and F16C; lanes_scalar.h says what each operation means.
// Everything is in an anonymous namespace: this file is compiled with -m flags, and the linker must
// not keep a copy of it for files without.
namespace strata {
namespace {

constexpr int kStrips = 1;
constexpr int kLanes = 8;

using Floats = __m256;
using Ints = __m256i;   // 8 x i32
using Words = __m256i;  // 16 x i16
using Bytes = __m256i;  // 32 bytes

// Tokens of a tile, a power of two. The 8 vectors of codes take half of the registers and the sums
// wait in the first-level cache; unpacking the codes once for 8 tokens gains more than that costs
// (measured: 4 tokens 0.51, 8 tokens 0.56 of the peak for Q4_1; Q8_0 0.36 and 0.42).
constexpr int kTileTokens = 8;

STRATA_SIMD Floats f_zero() { return _mm256_setzero_ps(); }
STRATA_SIMD Floats f_load(const float* p) { return _mm256_loadu_ps(p); }
STRATA_SIMD void f_store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
STRATA_SIMD Floats f_broadcast(const float* p) { return _mm256_broadcast_ss(p); }
STRATA_SIMD Floats f_set(float v) { return _mm256_set1_ps(v); }
STRATA_SIMD Floats f_add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
STRATA_SIMD Floats f_mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
STRATA_SIMD Floats f_fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
STRATA_SIMD Floats f_fnma(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }
STRATA_SIMD Floats f_from_int(Ints v) { return _mm256_cvtepi32_ps(v); }
STRATA_SIMD __m128i load_8_bytes(Strips s) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(s.first));
}
STRATA_SIMD __m128i load_16_bytes(Strips s) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(s.first));
}
STRATA_SIMD Floats f_load_f32(Strips s) {
  return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.first)));
}
STRATA_SIMD Floats f_load_f16(Strips s) { return _mm256_cvtph_ps(load_16_bytes(s)); }
STRATA_SIMD Floats f_load_bf16(Strips s) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(s)), 16));
}

STRATA_SIMD Ints i_add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
STRATA_SIMD Ints i_sub(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
STRATA_SIMD Ints i_zero() { return _mm256_setzero_si256(); }
STRATA_SIMD Ints i_mul(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
STRATA_SIMD Ints i_high_of_pairs(Words v) { return _mm256_srai_epi32(v, 16); }
STRATA_SIMD Ints i_pair_dot(Words a, Words b) { return _mm256_madd_epi16(a, b); }

STRATA_SIMD Words w_add(Words a, Words b) { return _mm256_add_epi16(a, b); }
STRATA_SIMD Words w_broadcast_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, 4);
  return _mm256_set1_epi32(pair);
}
STRATA_SIMD Words w_set(int v) { return _mm256_set1_epi16(static_cast<int16_t>(v)); }
STRATA_SIMD Words w_spread_u8(Strips s) {
  const __m256i wide = _mm256_cvtepu8_epi32(load_8_bytes(s));
  return _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16));
}
STRATA_SIMD Words w_spread_s8(Strips s) {
  const __m256i wide = _mm256_cvtepi8_epi32(load_8_bytes(s));
  return _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi32(0xffff)),
                         _mm256_slli_epi32(wide, 16));
}
template <int kByte>
STRATA_SIMD Words w_spread_byte(Bytes v) {
  return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(byte_in_halves(kByte)));
}
STRATA_SIMD Words w_low_of_pairs(Words a, Words b) { return _mm256_blend_epi16(a, b, 0b10101010); }
template <int kShift>
STRATA_SIMD Words w_shift_left(Words v) {
  return _mm256_slli_epi16(v, kShift);
}
template <int kShift>
STRATA_SIMD Words w_shift_right(Words v) {
  return _mm256_srli_epi16(v, kShift);
}
// Has v computed here: the compiler would put off the sums of a tile until all their terms wait in
// memory.
STRATA_SIMD void pin(Words& v) { asm("" : "+x"(v)); }
STRATA_SIMD Words w_and(Words a, Words b) { return _mm256_and_si256(a, b); }

STRATA_SIMD Bytes b_load(Strips s) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.first));
}
STRATA_SIMD Bytes b_flip_signs(Bytes v) {
  return _mm256_xor_si256(v, _mm256_set1_epi8(static_cast<char>(-128)));
}
STRATA_SIMD Bytes b_or(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
template <int kShift, int kMask>
STRATA_SIMD Bytes b_take(Bytes v) {
  // Shifts of 16 bits carry bits over from the neighbour; the mask removes them.
  static_assert(kShift >= 0 ? kMask <= 255 >> kShift : (kMask & ((1 << -kShift) - 1)) == 0);
  if constexpr (kShift > 0) v = _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm256_slli_epi16(v, -kShift);
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(kMask)));
}
STRATA_SIMD Bytes b_table(const int8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
STRATA_SIMD Bytes b_lookup(Bytes table, Bytes codes) { return _mm256_shuffle_epi8(table, codes); }

STRATA_SIMD Bytes broadcast_four(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}
STRATA_SIMD Words w_dot_u8(Bytes w, const int8_t* x) {
  return _mm256_maddubs_epi16(w, broadcast_four(x));
}
STRATA_SIMD Words w_dot_s8(Bytes w, const int8_t* x) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(broadcast_four(x), w));
}

#ifdef __AVXVNNI__
STRATA_SIMD Ints i_add_dot_u8(Ints sum, Bytes w, const int8_t* x) {
  return _mm256_dpbusd_avx_epi32(sum, w, broadcast_four(x));
}
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
STRATA_SIMD Ints i_add_dot_u8(Ints sum, Bytes w, const int8_t* x) {
  return _mm256_dpbusd_epi32(sum, w, broadcast_four(x));
}
#endif

STRATA_SIMD void prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}
STRATA_SIMD void prefetch_for_write(const float* p) { __builtin_prefetch(p, 1, 3); }

}  // namespace
}  // namespace strata
