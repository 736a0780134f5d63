#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/elements.h"

// The lanes of a Vec: 4, or 16 where tests stand in for the levels of 512 bits.
#ifndef STRATA_SCALAR_LANES
#define STRATA_SCALAR_LANES 4
#endif

// Vec for the baseline: lanes in the compiler's own vector type, no intrinsics, no fused
// multiply-add. Kernels (*.inl.h) are written over the names below; vec_avx2.h has the same ones.
// Everything here is internal to the ISA file that includes it: the linker must not share a copy
// compiled for one level with another.
namespace strata {
namespace {

typedef float Lanes __attribute__((vector_size(4 * STRATA_SCALAR_LANES)));
typedef uint32_t LaneBits __attribute__((vector_size(4 * STRATA_SCALAR_LANES)));
typedef int32_t LaneMask __attribute__((vector_size(4 * STRATA_SCALAR_LANES)));  // all ones or zero

struct Vec {
  static constexpr int kLanes = STRATA_SCALAR_LANES;
  Lanes v;
};

inline Vec broadcast(float x) { return {x - Lanes{}}; }
inline Vec zero() { return broadcast(0.0f); }
inline Vec load(const float* p) {
  Vec r;
  std::memcpy(&r.v, p, sizeof r.v);
  return r;
}
inline void store(float* p, Vec a) { std::memcpy(p, &a.v, sizeof a.v); }
// The first n lanes (0 <= n <= kLanes) from memory, the others 0; memory past them is not touched.
inline Vec load_partial(const float* p, int n) {
  Vec r = zero();
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
inline void store_partial(float* p, Vec a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}

inline Vec add(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec sub(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec mul(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec div(Vec a, Vec b) { return {a.v / b.v}; }
// a * b + c; one rounding where the level has it, two here.
inline Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
// c - a * b, likewise.
inline Vec fnma(Vec a, Vec b, Vec c) { return {c.v - a.v * b.v}; }

inline Vec select(LaneMask mask, Vec yes, Vec no) {
  return {(Lanes)((mask & (LaneMask)yes.v) | (~mask & (LaneMask)no.v))};
}
// A NaN in the second operand is the result (x86's rule, so that NaN survives a clamp).
inline Vec max(Vec a, Vec b) { return select(a.v > b.v, a, b); }
inline Vec min(Vec a, Vec b) { return select(a.v < b.v, a, b); }
inline Vec if_less(Vec a, Vec b, Vec yes, Vec no) { return select(a.v < b.v, yes, no); }
// Whether a < b in any lane.
inline bool any_less(Vec a, Vec b) {
  const LaneMask less = a.v < b.v;
  int32_t any = 0;
  for (int i = 0; i < Vec::kLanes; ++i) any |= less[i];
  return any != 0;
}
// Lane i of a where bit i of `bits` is set, else 0.
inline Vec keep_lanes(Vec a, uint32_t bits) {
  for (int i = 0; i < Vec::kLanes; ++i)
    if ((bits >> i & 1u) == 0) a.v[i] = 0;
  return a;
}
inline Vec abs(Vec a) { return {(Lanes)((LaneBits)a.v & 0x7fffffffu)}; }
inline Vec square_root(Vec a) {
  for (int i = 0; i < Vec::kLanes; ++i) a.v[i] = __builtin_sqrtf(a.v[i]);
  return a;
}
// x * 2^n for the integer n that `biased` = n + 1.5 * 2^23 holds in its low bits; |n| <= 126.
inline Vec scale_by_power(Vec x, Vec biased) {
  const Vec power = {(Lanes)(((LaneBits)biased.v << 23) + 0x3f800000u)};
  return mul(x, power);
}
// (x1, x0, x3, x2, ..).
inline Vec swap_pairs(Vec a) {
  Vec r = a;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = a.v[i ^ 1];
  return r;
}

// Lane j of square[i] and lane i of square[j] change places.
inline void transpose(Vec (&square)[Vec::kLanes]) {
  for (int i = 0; i < Vec::kLanes; ++i)
    for (int j = i + 1; j < Vec::kLanes; ++j) {
      const float x = square[i].v[j];
      square[i].v[j] = square[j].v[i];
      square[j].v[i] = x;
    }
}

// The upper half joins the lower until one lane is left.
inline float reduce_add(Vec a) {
  for (int half = Vec::kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  return a.v[0];
}
inline float reduce_max(Vec a) {
  for (int half = Vec::kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}
inline float first_lane(Vec a) { return a.v[0]; }

// Two bf16 numbers a lane, the first in its low half; at avx512_bf16 and here. In memory they are
// words of 32 bits among floats.
struct Pairs {
  LaneBits v;
};
inline Pairs load_pairs(const float* p) {
  Pairs r;
  std::memcpy(&r.v, p, sizeof r.v);
  return r;
}
inline void store_pairs(float* p, Pairs a) { std::memcpy(p, &a.v, sizeof a.v); }
inline Vec as_vec(Pairs a) { return {(Lanes)a.v}; }
inline Pairs broadcast_pair(const float* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return {word - LaneBits{}};
}
inline uint32_t rounded_pair(float first, float second) {
  BF16 low, high;
  from_float(first, low);
  from_float(second, high);
  return uint32_t{high.bits} << 16 | low.bits;
}
// A lane's pair from the lane of each.
inline Pairs round_pairs(Vec first, Vec second) {
  Pairs r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = rounded_pair(first.v[i], second.v[i]);
  return r;
}
// Neighbours of the 2 kLanes numbers of low and, behind them, high.
inline Pairs round_neighbours(Vec low, Vec high) {
  Pairs r;
  for (int i = 0; i < Vec::kLanes; ++i) {
    const Vec& half = 2 * i < Vec::kLanes ? low : high;
    const int at = 2 * i % Vec::kLanes;
    r.v[i] = rounded_pair(half.v[at], half.v[at + 1]);
  }
  return r;
}
// sum + the product of the second numbers of each lane, + that of the first.
inline Vec add_pair_dot(Vec sum, Pairs a, Pairs b) {
  for (int i = 0; i < Vec::kLanes; ++i) {
    const float second = __builtin_fmaf(bits_to_float(a.v[i] & 0xffff0000u),
                                        bits_to_float(b.v[i] & 0xffff0000u), sum.v[i]);
    sum.v[i] = __builtin_fmaf(bits_to_float(a.v[i] << 16), bits_to_float(b.v[i] << 16), second);
  }
  return sum;
}

// Four words of a random generator, each in the low half of a lane.
typedef uint64_t WideWords __attribute__((vector_size(32)));
// The products of the lanes' low halves, whatever their high halves hold. By reference: how vectors
// wider than a register are passed depends on the level.
inline void multiply_low_halves(const WideWords& a, const WideWords& b, WideWords& product) {
  product = (a & 0xffffffffu) * (b & 0xffffffffu);
}

inline float to_float(F16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Exponent and fraction moved into place are the value times 2^-112: exact, subnormals too.
  const float scaled = bits_to_float(magnitude << 13) * 0x1p112f;
  const uint32_t bits =
      magnitude >= 0x7c00u ? 0x7f800000u | (magnitude << 13) : float_to_bits(scaled);
  return bits_to_float(sign | bits);
}
// kLanes consecutive elements (elements.h) as f32.
template <class Element>
inline Vec load_as_float(const Element* p) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = to_float(p[i]);
  return r;
}

// kLanes consecutive bytes, two's complement.
inline Vec load_signed_bytes(const uint8_t* p) {
  Vec r;
  for (int i = 0; i < Vec::kLanes; ++i) r.v[i] = static_cast<int8_t>(p[i]);
  return r;
}
// The sixteen 4-bit numbers of 8 bytes: the low halves in order, then the high ones.
inline void load_nibbles(const uint8_t* p, Vec (&out)[16 / Vec::kLanes]) {
  for (int i = 0; i < 16; ++i)
    out[i / Vec::kLanes].v[i % Vec::kLanes] = static_cast<float>(i < 8 ? p[i] & 15 : p[i - 8] >> 4);
}

// Round to nearest even; beyond the range of f16 becomes infinity, NaN stays NaN.
inline void from_float(float x, F16& out) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, the float adder rounds
    half = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  out.bits = static_cast<uint16_t>(sign | half);
}

}  // namespace
}  // namespace strata
