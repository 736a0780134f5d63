#include "kernels/ref/rows.h"

#include <algorithm>
#include <cmath>

namespace strata::ref {

void rms_norm(const float* x, const float* weight, double epsilon, int64_t n, double* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double root = std::sqrt(sum / static_cast<double>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / root * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, double epsilon, int64_t n,
                double* y) {
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<double>(n);
  double variance = 0;
  for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] +
           (bias == nullptr ? 0.0 : bias[i]);
}

double silu(double x) { return x / (1 + std::exp(-x)); }

double gelu_tanh(double x) {
  const double u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  // 1 + tanh u without the cancellation for u << 0.
  return x * (u < 0 ? std::exp(2 * u) / (1 + std::exp(2 * u)) : 1 / (1 + std::exp(-2 * u)));
}

double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

double relu(double x) { return std::max(x, 0.0); }

void softmax(const float* x, int64_t n, double* y) {
  double largest = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, static_cast<double>(x[i]));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - largest);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

}  // namespace strata::ref
