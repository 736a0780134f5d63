#pragma once

#include <cstdint>

namespace strata {

// Small operations on one row of f32 at a time: n consecutive floats at any alignment, n >= 0.
// A result may be written over an operand that starts at the same address. Every function is a
// fixed sequence of roundings of its own row: the value never depends on threads, on other rows or
// on alignment. eps = 2^-24; the twins in f64 are in ref/rows.h.
struct RowKernels {
  // y = x / sqrt(mean(x^2) + epsilon) * weight. `weight` holds the model's offset already (Gemma).
  // Err: |y - ref| <= (n / 16 + 6) eps |ref|.  Src: Zhang & Sennrich 2019 (arXiv:1910.07467).
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t n,
                   float* y) noexcept;
  // y = (x - mean) / sqrt(var + epsilon) * weight + bias; bias may be nullptr.
  // Err: (n / 16 + 8) eps (|(max|x| + |mean|) / sd * weight| + |bias|).
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon,
                     int64_t n, float* y) noexcept;
  void (*add)(const float* a, const float* b, int64_t n, float* y) noexcept;
  void (*scale)(const float* x, float factor, int64_t n, float* y) noexcept;

  // Rotary positions of one head, n = 2 * size elements (those past them are the caller's).
  // halves: pairs (x[i], x[i + size]), cos and sin [size] each.
  void (*rope_halves)(const float* x, const float* cos, const float* sin, int64_t size,
                      float* y) noexcept;
  // pairs: (x[2i], x[2i + 1]), n elements; cos and signed_sin [n] hold each pair's value twice, the
  // sine as it enters: -sin, +sin.
  // Err, both: 3 eps (|x0 cos| + |x1 sin|).
  void (*rope_pairs)(const float* x, const float* cos, const float* signed_sin, int64_t n,
                     float* y) noexcept;

  // Activations, y = f(x), and gated ones, y = f(gate) * up. Err: 12 eps |ref| + 1e-37; gelu_tanh
  // (12 + 4 |2u|) eps |ref| (u as in math.inl.h); gelu_erf 1e-7 |x| beside.
  struct Activations {
    void (*plain)(const float* x, int64_t n, float* y) noexcept;
    void (*gated)(const float* gate, const float* up, int64_t n, float* y) noexcept;
  };
  Activations silu, gelu_tanh, gelu_erf, relu;

  // The largest value; -inf for n == 0. NaN is not reported reliably: see sum_exp.
  float (*max_value)(const float* x, int64_t n) noexcept;
  // Sum of e^(x[i] - shift) in f64 over partial sums of 256; NaN if an x is NaN.
  // Err: (20 + max |x - shift|) eps of the sum.
  double (*sum_exp)(const float* x, float shift, int64_t n) noexcept;
  // Sum of e^((x[i] - shift) factor) in f64, for shift >= all x and factor > 0: what a draw by
  // inverse CDF needs; NaN if an x is NaN. Err: 2^-47 of the sum.
  double (*sum_exp_f64)(const float* x, float shift, double factor, int64_t n) noexcept;
  // y = e^(x - max x) / sum; n == 0: nothing.  Err: (32 + 2 max|x - max|) eps |ref| + 1e-37.
  void (*softmax)(const float* x, int64_t n, float* y) noexcept;
};

}  // namespace strata
