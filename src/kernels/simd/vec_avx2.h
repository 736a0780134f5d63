#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/elements_f16c.h"

// Vec for AVX2 with FMA and F16C: eight lanes. The contract of each name is in vec_scalar.h.
namespace strata {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
};

inline Vec broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Vec zero() { return {_mm256_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }

// Lanes below n have the sign bit set.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load_partial(const float* p, int n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
inline void store_partial(float* p, Vec a, int n) { _mm256_maskstore_ps(p, first_lanes(n), a.v); }

inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }

inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec if_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
inline bool any_less(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)) != 0;
}
inline Vec keep_lanes(Vec a, uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane);
  return {_mm256_and_ps(a.v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)))};
}
inline Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline Vec square_root(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
inline Vec scale_by_power(Vec x, Vec biased) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(biased.v), 23);
  const __m256i power = _mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000));
  return {_mm256_mul_ps(x.v, _mm256_castsi256_ps(power))};
}
inline Vec swap_pairs(Vec a) { return {_mm256_permute_ps(a.v, 0xb1)}; }

inline void transpose(Vec (&square)[8]) {
  // 4 x 4 within the halves: pairs of rows, then pairs of pairs; then the halves change places.
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(square[i].v, square[i + 1].v);
    t[i + 1] = _mm256_unpackhi_ps(square[i].v, square[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
      u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
    }
  for (int i = 0; i < 4; ++i) {
    square[i].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    square[i + 4].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

inline float reduce_add(Vec a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
inline float reduce_max(Vec a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
inline float first_lane(Vec a) { return _mm256_cvtss_f32(a.v); }

typedef uint64_t WideWords __attribute__((vector_size(32)));
inline void multiply_low_halves(const WideWords& a, const WideWords& b, WideWords& product) {
  product = (WideWords)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

inline Vec load_signed_bytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
}
inline void load_nibbles(const uint8_t* p, Vec (&out)[2]) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m256i wide = _mm256_cvtepu8_epi32(bytes);
  out[0].v = _mm256_cvtepi32_ps(_mm256_and_si256(wide, _mm256_set1_epi32(15)));
  out[1].v = _mm256_cvtepi32_ps(_mm256_srli_epi32(wide, 4));
}

inline Vec load_as_float(const F32* p) { return {_mm256_loadu_ps(&p->value)}; }
inline Vec load_as_float(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec load_as_float(const BF16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}

}  // namespace
}  // namespace strata
