#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Nothing is kept in registers here, so unrolling would gain nothing.
#define STRATA_UNROLL
#include "kernels/simd/strips.h"
#include "numeric/half.h"

// The strips of a vector: 1, or 2 where tests stand in for the levels of 512 bits.
#ifndef STRATA_SCALAR_STRIPS
#define STRATA_SCALAR_STRIPS 1
#endif

// Lanes of 32 bits in plain C++: the definition of what lanes_*.h do, to the bit.
namespace strata {
namespace {

constexpr int kStrips = STRATA_SCALAR_STRIPS;
constexpr int kLanes = 8 * kStrips;

// Two with two strips, so that tests go through the halving of tiles.
constexpr int kTileTokens = kStrips;

struct Floats {
  float v[kLanes];
};
struct Ints {
  int32_t v[kLanes];
};
struct Words {
  int16_t v[2 * kLanes];
};
struct Bytes {
  uint8_t v[4 * kLanes];
};

// The result of fn(i) in lane i.
template <typename Vector, int kCount, typename Fn>
STRATA_SIMD Vector lanes(Fn fn) {
  Vector r;
  for (int i = 0; i < kCount; ++i) r.v[i] = fn(i);
  return r;
}
template <typename Fn>
STRATA_SIMD Floats f_of(Fn fn) {
  return lanes<Floats, kLanes>(fn);
}
template <typename Fn>
STRATA_SIMD Ints i_of(Fn fn) {
  return lanes<Ints, kLanes>(fn);
}
template <typename Fn>
STRATA_SIMD Words w_of(Fn fn) {
  return lanes<Words, 2 * kLanes>([&](int i) { return static_cast<int16_t>(fn(i)); });
}
template <typename Fn>
STRATA_SIMD Bytes b_of(Fn fn) {
  return lanes<Bytes, 4 * kLanes>([&](int i) { return static_cast<uint8_t>(fn(i)); });
}
// Where entry i of a load is that takes kEach entries of `size` bytes from each strip.
template <int kEach>
STRATA_SIMD const std::byte* place(Strips s, int i, int size) {
  return s.first + i / kEach * s.apart + i % kEach * size;
}
STRATA_SIMD uint16_t load_u16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

STRATA_SIMD Floats f_set(float v) {
  return f_of([&](int) { return v; });
}
STRATA_SIMD Floats f_zero() { return f_set(0.0f); }
STRATA_SIMD Floats f_load(const float* p) {
  return f_of([&](int i) { return p[i]; });
}
STRATA_SIMD void f_store(float* p, Floats v) { std::memcpy(p, v.v, sizeof(v.v)); }
STRATA_SIMD Floats f_broadcast(const float* p) { return f_set(*p); }
STRATA_SIMD Floats f_add(Floats a, Floats b) {
  return f_of([&](int i) { return a.v[i] + b.v[i]; });
}
STRATA_SIMD Floats f_mul(Floats a, Floats b) {
  return f_of([&](int i) { return a.v[i] * b.v[i]; });
}
// a * b + c and c - a * b, rounded once.
STRATA_SIMD Floats f_fma(Floats a, Floats b, Floats c) {
  return f_of([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
STRATA_SIMD Floats f_fnma(Floats a, Floats b, Floats c) {
  return f_of([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
}
STRATA_SIMD Floats f_from_int(Ints v) {
  return f_of([&](int i) { return static_cast<float>(v.v[i]); });
}
// Eight numbers from each strip.
STRATA_SIMD Floats f_load_f32(Strips s) {
  return f_of([&](int i) {
    float v;
    std::memcpy(&v, place<8>(s, i, 4), 4);
    return v;
  });
}
STRATA_SIMD Floats f_load_f16(Strips s) {
  return f_of([&](int i) { return decode_f16(load_u16(place<8>(s, i, 2))); });
}
STRATA_SIMD Floats f_load_bf16(Strips s) {
  return f_of([&](int i) { return decode_bf16(load_u16(place<8>(s, i, 2))); });
}

STRATA_SIMD Ints i_add(Ints a, Ints b) {
  return i_of([&](int i) { return a.v[i] + b.v[i]; });
}
STRATA_SIMD Ints i_sub(Ints a, Ints b) {
  return i_of([&](int i) { return a.v[i] - b.v[i]; });
}
STRATA_SIMD Ints i_zero() {
  return i_of([](int) { return 0; });
}
STRATA_SIMD Ints i_mul(Ints a, Ints b) {
  return i_of([&](int i) { return a.v[i] * b.v[i]; });
}
// Lane i: the 16-bit number 2i + 1.
STRATA_SIMD Ints i_high_of_pairs(Words v) {
  return i_of([&](int i) { return v.v[2 * i + 1]; });
}
// Lane i: the products of the 16-bit numbers 2i and 2i + 1, added.
STRATA_SIMD Ints i_pair_dot(Words a, Words b) {
  return i_of([&](int i) { return a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1]; });
}

STRATA_SIMD Words w_add(Words a, Words b) {
  return w_of([&](int i) { return a.v[i] + b.v[i]; });
}
// The pair p[0], p[1] in every lane.
STRATA_SIMD Words w_broadcast_pair(const int16_t* p) {
  return w_of([&](int i) { return p[i % 2]; });
}
STRATA_SIMD Words w_set(int v) {
  return w_of([&](int) { return v; });
}
// Eight bytes from each strip, unsigned or signed, each in both halves of its lane.
STRATA_SIMD Words w_spread_u8(Strips s) {
  return w_of([&](int i) { return std::to_integer<int>(*place<8>(s, i / 2, 1)); });
}
STRATA_SIMD Words w_spread_s8(Strips s) {
  return w_of(
      [&](int i) { return static_cast<int8_t>(std::to_integer<int>(*place<8>(s, i / 2, 1))); });
}
// Byte kByte of each lane in both halves of its lane.
template <int kByte>
STRATA_SIMD Words w_spread_byte(Bytes v) {
  return w_of([&](int i) { return v.v[i / 2 * 4 + kByte]; });
}
// The first number of each pair from a, the second from b.
STRATA_SIMD Words w_low_of_pairs(Words a, Words b) {
  return w_of([&](int i) { return i % 2 == 0 ? a.v[i] : b.v[i]; });
}
template <int kShift>
STRATA_SIMD Words w_shift_left(Words v) {
  return w_of([&](int i) { return v.v[i] * (1 << kShift); });
}
template <int kShift>
STRATA_SIMD Words w_shift_right(Words v) {
  return w_of([&](int i) { return static_cast<uint16_t>(v.v[i]) >> kShift; });
}
template <typename Vector>
STRATA_SIMD void pin(Vector& /*v*/) {}
STRATA_SIMD Words w_and(Words a, Words b) {
  return w_of([&](int i) { return a.v[i] & b.v[i]; });
}

// 32 bytes from each strip.
STRATA_SIMD Bytes b_load(Strips s) {
  return b_of([&](int i) { return std::to_integer<int>(*place<32>(s, i, 1)); });
}
// v + 128, from signed to unsigned.
STRATA_SIMD Bytes b_flip_signs(Bytes v) {
  return b_of([&](int i) { return v.v[i] ^ 128; });
}
STRATA_SIMD Bytes b_or(Bytes a, Bytes b) {
  return b_of([&](int i) { return a.v[i] | b.v[i]; });
}
// Each byte shifted right by kShift (left by -kShift) and masked.
template <int kShift, int kMask>
STRATA_SIMD Bytes b_take(Bytes v) {
  if constexpr (kShift >= 0) return b_of([&](int i) { return v.v[i] >> kShift & kMask; });
  if constexpr (kShift < 0) return b_of([&](int i) { return v.v[i] << -kShift & kMask; });
}
// A table of 16 bytes, and its entries at codes < 16.
STRATA_SIMD Bytes b_table(const int8_t* p) {
  return b_of([&](int i) { return p[i % 16]; });
}
STRATA_SIMD Bytes b_lookup(Bytes table, Bytes codes) {
  return b_of([&](int i) { return table.v[codes.v[i]]; });
}

// Products of bytes 2i, 2i + 1 of w (unsigned, signed) with the matching two of x[0..4), added.
STRATA_SIMD Words w_dot_u8(Bytes w, const int8_t* x) {
  return w_of([&](int i) { return w.v[2 * i] * x[2 * i % 4] + w.v[2 * i + 1] * x[2 * i % 4 + 1]; });
}
STRATA_SIMD Words w_dot_s8(Bytes w, const int8_t* x) {
  return w_of([&](int i) {
    return static_cast<int8_t>(w.v[2 * i]) * x[2 * i % 4] +
           static_cast<int8_t>(w.v[2 * i + 1]) * x[2 * i % 4 + 1];
  });
}

// sum + the products of the four bytes of each lane, unsigned, with x[0..4).
STRATA_SIMD Ints i_add_dot_u8(Ints sum, Bytes w, const int8_t* x) {
  return i_of([&](int i) {
    int32_t lane = sum.v[i];
    for (int j = 0; j < 4; ++j) lane += w.v[4 * i + j] * x[j];
    return lane;
  });
}

// Of each strip two columns of bf16, 8 rows after 8: those of a row side by side in its lane; or
// the last column alone, beside zeros.
STRATA_SIMD Words w_load_column_pairs(Strips s) {
  return w_of([&](int i) { return load_u16(place<8>(s, i / 2, 2) + i % 2 * 16); });
}
STRATA_SIMD Words w_load_last_column(Strips s) {
  return w_of([&](int i) { return i % 2 == 0 ? load_u16(place<8>(s, i / 2, 2)) : 0; });
}
// sum + the product of the second bf16 numbers of each lane, + that of the first.
STRATA_SIMD Floats f_add_bf16_pair_dot(Floats sum, Words a, Words b) {
  const auto number = [](int16_t bits) { return decode_bf16(static_cast<uint16_t>(bits)); };
  return f_of([&](int i) {
    const float second = std::fma(number(a.v[2 * i + 1]), number(b.v[2 * i + 1]), sum.v[i]);
    return std::fma(number(a.v[2 * i]), number(b.v[2 * i]), second);
  });
}

STRATA_SIMD void prefetch(const std::byte*) {}
STRATA_SIMD void prefetch_for_write(const float*) {}

}  // namespace
}  // namespace strata
