#pragma once

// Bodies of rows.h, once for all levels; included by isa_<level>_rows.cpp after its Vec.
#include "kernels/math.inl.h"
#include "kernels/rows.h"

namespace strata {
namespace {

constexpr int kLanes = Vec::kLanes;

// Calls body(offset, count) for whole vectors (count == kLanes) and then once for what is left.
template <class Body>
inline void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}
inline Vec load_n(const float* p, int count) {
  return count == kLanes ? load(p) : load_partial(p, count);
}
inline void store_n(float* p, Vec v, int count) {
  if (count == kLanes)
    store(p, v);
  else
    store_partial(p, v, count);
}

// Sum of (x - shift)^2. Four accumulators hide the latency of the adder; their order is part of the
// result.
inline float sum_of_squares(const float* x, float shift, int64_t n) {
  const Vec s = broadcast(shift);
  Vec acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) {
      const Vec v = sub(load(x + i + j * kLanes), s);
      acc[j] = fma(v, v, acc[j]);
    }
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = sub(load(x + i), s);
    acc[0] = fma(v, v, acc[0]);
  }
  float tail = 0;
  for (; i < n; ++i) tail += (x[i] - shift) * (x[i] - shift);
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3]))) + tail;
}

inline float sum_of(const float* x, int64_t n) {
  Vec acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) acc[j] = add(load(x + i + j * kLanes), acc[j]);
  for_vectors(n - i, [&](int64_t j, int count) { acc[0] = add(load_n(x + i + j, count), acc[0]); });
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

inline float inverse_root(float x) {
  return first_lane(div(broadcast(1.0f), square_root(broadcast(x))));
}

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* y) noexcept {
  const float mean_square = sum_of_squares(x, 0.0f, n) / static_cast<float>(n);
  const Vec inverse = broadcast(inverse_root(mean_square + epsilon));
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, mul(mul(load_n(x + i, count), inverse), load_n(weight + i, count)), count);
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t n,
                float* y) noexcept {
  const float mean = sum_of(x, n) / static_cast<float>(n);
  const float variance = sum_of_squares(x, mean, n) / static_cast<float>(n);
  const Vec inverse = broadcast(inverse_root(variance + epsilon));
  const Vec shift = broadcast(mean);
  for_vectors(n, [&](int64_t i, int count) {
    const Vec b = bias == nullptr ? zero() : load_n(bias + i, count);
    const Vec normal = mul(sub(load_n(x + i, count), shift), inverse);
    store_n(y + i, fma(normal, load_n(weight + i, count), b), count);
  });
}

void add_rows(const float* a, const float* b, int64_t n, float* y) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, add(load_n(a + i, count), load_n(b + i, count)), count);
  });
}

void scale_row(const float* x, float factor, int64_t n, float* y) noexcept {
  const Vec f = broadcast(factor);
  for_vectors(n,
              [&](int64_t i, int count) { store_n(y + i, mul(load_n(x + i, count), f), count); });
}

void rope_halves(const float* x, const float* cos, const float* sin, int64_t size,
                 float* y) noexcept {
  for_vectors(size, [&](int64_t i, int count) {
    const Vec a = load_n(x + i, count);
    const Vec b = load_n(x + size + i, count);
    const Vec c = load_n(cos + i, count);
    const Vec s = load_n(sin + i, count);
    store_n(y + i, fnma(b, s, mul(a, c)), count);
    store_n(y + size + i, fma(a, s, mul(b, c)), count);
  });
}

void rope_pairs(const float* x, const float* cos, const float* signed_sin, int64_t n,
                float* y) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    const Vec v = load_n(x + i, count);
    const Vec turned = mul(v, load_n(cos + i, count));
    store_n(y + i, fma(swap_pairs(v), load_n(signed_sin + i, count), turned), count);
  });
}

template <Vec (*f)(Vec)>
void plain(const float* x, int64_t n, float* y) noexcept {
  for_vectors(n, [&](int64_t i, int count) { store_n(y + i, f(load_n(x + i, count)), count); });
}
template <Vec (*f)(Vec)>
void gated(const float* gate, const float* up, int64_t n, float* y) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, mul(f(load_n(gate + i, count)), load_n(up + i, count)), count);
  });
}

float max_value(const float* x, int64_t n) noexcept {
  const float lowest = -__builtin_inff();
  Vec m = broadcast(lowest);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = max(m, load(x + i));
  float result = reduce_max(m);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

double sum_exp(const float* x, float shift, int64_t n) noexcept {
  constexpr int64_t kBlock = 256;
  const Vec s = broadcast(shift);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    Vec acc = zero();
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) acc = add(acc, exp(sub(load(x + i), s)));
    float part = reduce_add(acc);
    for (; i < end; ++i) part += first_lane(exp(broadcast(x[i] - shift)));
    total += static_cast<double>(part);
  }
  return total;
}

void softmax(const float* x, int64_t n, float* y) noexcept {
  if (n <= 0) return;
  const float largest = max_value(x, n);
  const Vec factor = broadcast(static_cast<float>(1.0 / sum_exp(x, largest, n)));
  const Vec s = broadcast(largest);
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, mul(exp(sub(load_n(x + i, count), s)), factor), count);
  });
}

constexpr RowKernels kTable = {
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .add = add_rows,
    .scale = scale_row,
    .rope_halves = rope_halves,
    .rope_pairs = rope_pairs,
    .silu = {plain<silu>, gated<silu>},
    .gelu_tanh = {plain<gelu_tanh>, gated<gelu_tanh>},
    .gelu_erf = {plain<gelu_erf>, gated<gelu_erf>},
    .relu = {plain<relu>, gated<relu>},
    .max_value = max_value,
    .sum_exp = sum_exp,
    .softmax = softmax,
};

}  // namespace
}  // namespace strata
