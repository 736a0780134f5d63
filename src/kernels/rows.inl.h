#pragma once

// Bodies of rows.h, once for all levels; included by isa_<level>_rows.cpp after its Vec.
#include "kernels/exp_f64.inl.h"
#include "kernels/math.inl.h"
#include "kernels/row_loops.inl.h"
#include "kernels/rows.h"

namespace strata {
namespace {

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
    .sum_exp_f64 = sum_exp_f64,
    .softmax = softmax,
};

}  // namespace
}  // namespace strata
