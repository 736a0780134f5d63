#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numeric/half.h"

// Eight lanes of 32 bits in plain C++: the definition of what vec8_*.h do, to the bit.
namespace strata {
namespace {

// Nothing is kept in registers here, so a tile of more tokens would gain nothing.
constexpr int kTileTokens = 1;

#define STRATA_UNROLL
#define STRATA_SIMD [[gnu::always_inline]] inline

struct F8 {
  float v[8];
};
struct I8 {
  int32_t v[8];
};
struct W16 {
  int16_t v[16];
};
struct B32 {
  uint8_t v[32];
};

// The result of fn(i) in lane i.
template <typename Vector, int kLanes, typename Fn>
STRATA_SIMD Vector lanes(Fn fn) {
  Vector r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = fn(i);
  return r;
}
template <typename Fn>
STRATA_SIMD F8 f8(Fn fn) {
  return lanes<F8, 8>(fn);
}
template <typename Fn>
STRATA_SIMD I8 i8(Fn fn) {
  return lanes<I8, 8>(fn);
}
template <typename Fn>
STRATA_SIMD W16 w16(Fn fn) {
  return lanes<W16, 16>([&](int i) { return static_cast<int16_t>(fn(i)); });
}
template <typename Fn>
STRATA_SIMD B32 b32(Fn fn) {
  return lanes<B32, 32>([&](int i) { return static_cast<uint8_t>(fn(i)); });
}
STRATA_SIMD uint16_t load_u16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

STRATA_SIMD F8 f8_set(float v) {
  return f8([&](int) { return v; });
}
STRATA_SIMD F8 f8_zero() { return f8_set(0.0f); }
STRATA_SIMD F8 f8_load(const float* p) {
  return f8([&](int i) { return p[i]; });
}
STRATA_SIMD void f8_store(float* p, F8 v) { std::memcpy(p, v.v, sizeof(v.v)); }
STRATA_SIMD F8 f8_broadcast(const float* p) { return f8_set(*p); }
STRATA_SIMD F8 f8_add(F8 a, F8 b) {
  return f8([&](int i) { return a.v[i] + b.v[i]; });
}
STRATA_SIMD F8 f8_mul(F8 a, F8 b) {
  return f8([&](int i) { return a.v[i] * b.v[i]; });
}
// a * b + c and c - a * b, rounded once.
STRATA_SIMD F8 f8_fma(F8 a, F8 b, F8 c) {
  return f8([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
STRATA_SIMD F8 f8_fnma(F8 a, F8 b, F8 c) {
  return f8([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
}
STRATA_SIMD F8 f8_from_int(I8 v) {
  return f8([&](int i) { return static_cast<float>(v.v[i]); });
}
STRATA_SIMD F8 f8_load_f16(const std::byte* p) {
  return f8([&](int i) { return decode_f16(load_u16(p + 2 * i)); });
}
STRATA_SIMD F8 f8_load_bf16(const std::byte* p) {
  return f8([&](int i) { return decode_bf16(load_u16(p + 2 * i)); });
}
STRATA_SIMD F8 f8_load_u8(const std::byte* p) {
  return f8([&](int i) { return static_cast<float>(std::to_integer<int>(p[i])); });
}

STRATA_SIMD I8 i8_add(I8 a, I8 b) {
  return i8([&](int i) { return a.v[i] + b.v[i]; });
}
STRATA_SIMD I8 i8_sub(I8 a, I8 b) {
  return i8([&](int i) { return a.v[i] - b.v[i]; });
}
// Lane i: the sum of the 16-bit numbers 2i and 2i + 1; their products with b's.
STRATA_SIMD I8 i8_pair_sums(W16 v) {
  return i8([&](int i) { return v.v[2 * i] + v.v[2 * i + 1]; });
}
STRATA_SIMD I8 i8_pair_dot(W16 a, W16 b) {
  return i8([&](int i) { return a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1]; });
}

STRATA_SIMD W16 w16_add(W16 a, W16 b) {
  return w16([&](int i) { return a.v[i] + b.v[i]; });
}
// The pair p[0], p[1] in every lane.
STRATA_SIMD W16 w16_broadcast_pair(const int16_t* p) {
  return w16([&](int i) { return p[i % 2]; });
}
STRATA_SIMD W16 w16_set(int v) {
  return w16([&](int) { return v; });
}
// Byte i, unsigned or signed, in both halves of lane i.
STRATA_SIMD W16 w16_spread_u8(const std::byte* p) {
  return w16([&](int i) { return std::to_integer<int>(p[i / 2]); });
}
STRATA_SIMD W16 w16_spread_s8(const std::byte* p) {
  return w16([&](int i) { return static_cast<int8_t>(std::to_integer<int>(p[i / 2])); });
}
// The first number of each pair from a, the second from b.
STRATA_SIMD W16 w16_low_of_pairs(W16 a, W16 b) {
  return w16([&](int i) { return i % 2 == 0 ? a.v[i] : b.v[i]; });
}
template <int kShift>
STRATA_SIMD W16 w16_shift_left(W16 v) {
  return w16([&](int i) { return v.v[i] * (1 << kShift); });
}
template <int kShift>
STRATA_SIMD W16 w16_shift_right(W16 v) {
  return w16([&](int i) { return static_cast<uint16_t>(v.v[i]) >> kShift; });
}
STRATA_SIMD void pin(W16& /*v*/) {}
STRATA_SIMD W16 w16_and(W16 a, W16 b) {
  return w16([&](int i) { return a.v[i] & b.v[i]; });
}

STRATA_SIMD B32 b32_load(const std::byte* p) {
  B32 r;
  std::memcpy(r.v, p, 32);
  return r;
}
STRATA_SIMD B32 b32_or(B32 a, B32 b) {
  return b32([&](int i) { return a.v[i] | b.v[i]; });
}
// Each byte shifted right by kShift (left by -kShift) and masked.
template <int kShift, int kMask>
STRATA_SIMD B32 b32_take(B32 v) {
  if constexpr (kShift >= 0) return b32([&](int i) { return v.v[i] >> kShift & kMask; });
  if constexpr (kShift < 0) return b32([&](int i) { return v.v[i] << -kShift & kMask; });
}
// A table of 16 bytes, and its entries at codes < 16.
STRATA_SIMD B32 b32_table(const int8_t* p) {
  return b32([&](int i) { return p[i % 16]; });
}
STRATA_SIMD B32 b32_lookup(B32 table, B32 codes) {
  return b32([&](int i) { return table.v[codes.v[i]]; });
}

// Products of bytes 2i, 2i + 1 of w (unsigned, signed) with the matching two of x[0..4), added.
STRATA_SIMD W16 w16_dot_u8(B32 w, const int8_t* x) {
  return w16([&](int i) { return w.v[2 * i] * x[2 * i % 4] + w.v[2 * i + 1] * x[2 * i % 4 + 1]; });
}
STRATA_SIMD W16 w16_dot_s8(B32 w, const int8_t* x) {
  return w16([&](int i) {
    return static_cast<int8_t>(w.v[2 * i]) * x[2 * i % 4] +
           static_cast<int8_t>(w.v[2 * i + 1]) * x[2 * i % 4 + 1];
  });
}

STRATA_SIMD void prefetch(const std::byte*) {}

}  // namespace
}  // namespace strata
