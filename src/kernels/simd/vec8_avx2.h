#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Eight lanes of 32 bits on AVX2, FMA and F16C; vec8_scalar.h says what each operation means.
// Everything is in an anonymous namespace: this file is compiled with -m flags, and the linker must
// not keep a copy of it for files without.
namespace strata {
namespace {

using F8 = __m256;
using I8 = __m256i;   // 8 x i32
using W16 = __m256i;  // 16 x i16
using B32 = __m256i;  // 32 bytes

// Tokens of a tile, a power of two. The 8 vectors of codes take half of the registers and the sums
// wait in the first-level cache; unpacking the codes once for 8 tokens gains more than that costs
// (measured: 4 tokens 0.51, 8 tokens 0.56 of the peak for Q4_1; Q8_0 0.36 and 0.42).
constexpr int kTileTokens = 8;

#ifdef __clang__
#define STRATA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define STRATA_UNROLL _Pragma("GCC unroll 16")
#endif
#define STRATA_SIMD [[gnu::always_inline]] inline

STRATA_SIMD F8 f8_zero() { return _mm256_setzero_ps(); }
STRATA_SIMD F8 f8_load(const float* p) { return _mm256_loadu_ps(p); }
STRATA_SIMD void f8_store(float* p, F8 v) { _mm256_storeu_ps(p, v); }
STRATA_SIMD F8 f8_broadcast(const float* p) { return _mm256_broadcast_ss(p); }
STRATA_SIMD F8 f8_set(float v) { return _mm256_set1_ps(v); }
STRATA_SIMD F8 f8_add(F8 a, F8 b) { return _mm256_add_ps(a, b); }
STRATA_SIMD F8 f8_mul(F8 a, F8 b) { return _mm256_mul_ps(a, b); }
STRATA_SIMD F8 f8_fma(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
STRATA_SIMD F8 f8_fnma(F8 a, F8 b, F8 c) { return _mm256_fnmadd_ps(a, b, c); }
STRATA_SIMD F8 f8_from_int(I8 v) { return _mm256_cvtepi32_ps(v); }
STRATA_SIMD F8 f8_load_f16(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
STRATA_SIMD F8 f8_load_bf16(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
STRATA_SIMD F8 f8_load_u8(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

STRATA_SIMD I8 i8_add(I8 a, I8 b) { return _mm256_add_epi32(a, b); }
STRATA_SIMD I8 i8_sub(I8 a, I8 b) { return _mm256_sub_epi32(a, b); }
STRATA_SIMD I8 i8_pair_sums(W16 v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
STRATA_SIMD I8 i8_pair_dot(W16 a, W16 b) { return _mm256_madd_epi16(a, b); }

STRATA_SIMD W16 w16_add(W16 a, W16 b) { return _mm256_add_epi16(a, b); }
STRATA_SIMD W16 w16_broadcast_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, 4);
  return _mm256_set1_epi32(pair);
}
STRATA_SIMD W16 w16_set(int v) { return _mm256_set1_epi16(static_cast<int16_t>(v)); }
STRATA_SIMD W16 w16_spread_u8(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16));
}
STRATA_SIMD W16 w16_spread_s8(const std::byte* p) {
  const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi32(0xffff)),
                         _mm256_slli_epi32(wide, 16));
}
STRATA_SIMD W16 w16_low_of_pairs(W16 a, W16 b) { return _mm256_blend_epi16(a, b, 0b10101010); }
template <int kShift>
STRATA_SIMD W16 w16_shift_left(W16 v) {
  return _mm256_slli_epi16(v, kShift);
}
template <int kShift>
STRATA_SIMD W16 w16_shift_right(W16 v) {
  return _mm256_srli_epi16(v, kShift);
}
// Has v computed here: the compiler would put off the sums of a tile until all their terms wait in
// memory.
STRATA_SIMD void pin(W16& v) { asm("" : "+x"(v)); }
STRATA_SIMD W16 w16_and(W16 a, W16 b) { return _mm256_and_si256(a, b); }

STRATA_SIMD B32 b32_load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
STRATA_SIMD B32 b32_or(B32 a, B32 b) { return _mm256_or_si256(a, b); }
template <int kShift, int kMask>
STRATA_SIMD B32 b32_take(B32 v) {
  // Shifts of 16 bits carry bits over from the neighbour; the mask removes them.
  static_assert(kShift >= 0 ? kMask <= 255 >> kShift : (kMask & ((1 << -kShift) - 1)) == 0);
  if constexpr (kShift > 0) v = _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm256_slli_epi16(v, -kShift);
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(kMask)));
}
STRATA_SIMD B32 b32_table(const int8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
STRATA_SIMD B32 b32_lookup(B32 table, B32 codes) { return _mm256_shuffle_epi8(table, codes); }

STRATA_SIMD B32 broadcast_four(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}
STRATA_SIMD W16 w16_dot_u8(B32 w, const int8_t* x) {
  return _mm256_maddubs_epi16(w, broadcast_four(x));
}
STRATA_SIMD W16 w16_dot_s8(B32 w, const int8_t* x) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(broadcast_four(x), w));
}

STRATA_SIMD void prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace
}  // namespace strata
