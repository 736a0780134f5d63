#pragma once

// Loops over one row that rows.h and train_rows.h share; included by ISA files after their Vec.
#include <cstdint>

#include "kernels/math.inl.h"

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

}  // namespace
}  // namespace strata
