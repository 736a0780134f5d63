#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/elements_f16c.h"

// Vec for AVX-512 F, BW, DQ and VL: sixteen lanes. The contract of each name is in vec_scalar.h.
namespace strata {
namespace {

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
};

inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }

// Bit i for each lane i below n, 0 <= n <= 16.
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline Vec load_partial(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
inline void store_partial(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }

inline Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }

inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline __mmask16 less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
inline Vec if_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm512_mask_blend_ps(less(a, b), no.v, yes.v)};
}
inline bool any_less(Vec a, Vec b) { return less(a, b) != 0; }
inline Vec keep_lanes(Vec a, uint32_t bits) {
  return {_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), a.v)};
}
inline Vec abs(Vec a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline Vec square_root(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec scale_by_power(Vec x, Vec biased) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(biased.v), 23);
  const __m512i power = _mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000));
  return {_mm512_mul_ps(x.v, _mm512_castsi512_ps(power))};
}
inline Vec swap_pairs(Vec a) { return {_mm512_permute_ps(a.v, 0xb1)}; }

inline void transpose(Vec (&square)[16]) {
  // 4 x 4 within the quarters: pairs of rows, then pairs of pairs. Quarter q of t[4 i + c] is then
  // column 4 q + c of rows 4 i .. 4 i + 3.
  __m512 t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    u[i] = _mm512_unpacklo_ps(square[i].v, square[i + 1].v);
    u[i + 1] = _mm512_unpackhi_ps(square[i].v, square[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      t[i + 2 * j] = _mm512_shuffle_ps(u[i + j], u[i + j + 2], 0x44);
      t[i + 2 * j + 1] = _mm512_shuffle_ps(u[i + j], u[i + j + 2], 0xee);
    }
  // Then the 4 x 4 quarters of t[c], t[c + 4], t[c + 8], t[c + 12].
  for (int c = 0; c < 4; ++c) {
    const __m512 low_even = _mm512_shuffle_f32x4(t[c], t[c + 4], 0x88);  // quarters 0 2 of each
    const __m512 low_odd = _mm512_shuffle_f32x4(t[c], t[c + 4], 0xdd);   // quarters 1 3
    const __m512 high_even = _mm512_shuffle_f32x4(t[c + 8], t[c + 12], 0x88);
    const __m512 high_odd = _mm512_shuffle_f32x4(t[c + 8], t[c + 12], 0xdd);
    square[c].v = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
    square[c + 4].v = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
    square[c + 8].v = _mm512_shuffle_f32x4(low_even, high_even, 0xdd);
    square[c + 12].v = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
  }
}

inline float reduce_add(Vec a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
inline float reduce_max(Vec a) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
inline float first_lane(Vec a) { return _mm512_cvtss_f32(a.v); }

typedef uint64_t WideWords __attribute__((vector_size(32)));
inline void multiply_low_halves(const WideWords& a, const WideWords& b, WideWords& product) {
  product = (WideWords)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#ifdef __AVX512BF16__
struct Pairs {
  __m512i v;
};
inline Pairs load_pairs(const float* p) { return {_mm512_loadu_si512(p)}; }
inline void store_pairs(float* p, Pairs a) { _mm512_storeu_si512(p, a.v); }
inline Vec as_vec(Pairs a) { return {_mm512_castsi512_ps(a.v)}; }
inline Pairs broadcast_pair(const float* p) { return {_mm512_castps_si512(_mm512_set1_ps(*p))}; }
inline Pairs round_pairs(Vec first, Vec second) {
  const auto words = [](Vec a) {
    return _mm512_cvtepu16_epi32(__builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(a.v)));
  };
  return {_mm512_or_si512(words(first), _mm512_slli_epi32(words(second), 16))};
}
inline Pairs round_neighbours(Vec low, Vec high) {
  return {__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high.v, low.v))};
}
inline Vec add_pair_dot(Vec sum, Pairs a, Pairs b) {
  return {_mm512_dpbf16_ps(sum.v, __builtin_bit_cast(__m512bh, a.v),
                           __builtin_bit_cast(__m512bh, b.v))};
}
#endif

inline Vec load_signed_bytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
inline void load_nibbles(const uint8_t* p, Vec (&out)[1]) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i nibbles = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4));
  const __m128i codes = _mm_and_si128(nibbles, _mm_set1_epi8(15));
  out[0].v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes));
}

inline Vec load_as_float(const F32* p) { return {_mm512_loadu_ps(&p->value)}; }
inline Vec load_as_float(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec load_as_float(const BF16* p) {
  const __m512i wide =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

}  // namespace
}  // namespace strata
