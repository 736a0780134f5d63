#include "kernels/ref/train_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/rows.h"

namespace strata::ref {

void rms_norm_backward(const float* x, const float* weight, double epsilon, const float* d_y,
                       int64_t n, double* d_x, double* d_weight) {
  double square = 0, along = 0;
  for (int64_t i = 0; i < n; ++i) {
    square += double{x[i]} * x[i];
    along += double{d_y[i]} * weight[i] * x[i];
  }
  const double r = 1 / std::sqrt(square / static_cast<double>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    d_x[i] = r * (double{d_y[i]} * weight[i] - x[i] * r * r * along / static_cast<double>(n));
    d_weight[i] = double{d_y[i]} * x[i] * r;
  }
}

void layer_norm_backward(const float* x, const float* weight, double epsilon, const float* d_y,
                         int64_t n, double* d_x, double* d_weight, double* d_bias) {
  const auto length = static_cast<double>(n);
  double mean = 0, variance = 0, level = 0, along = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[i] / length;
  for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / length;
  const double r = 1 / std::sqrt(variance + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const double g = double{d_y[i]} * weight[i];
    level += g / length;
    along += g * (x[i] - mean) * r / length;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double h = (x[i] - mean) * r;
    d_x[i] = r * (double{d_y[i]} * weight[i] - level - h * along);
    d_weight[i] = double{d_y[i]} * h;
    d_bias[i] = d_y[i];
  }
}

double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

double gelu_tanh_slope(double x) {
  const double root = std::sqrt(2 / 3.14159265358979323846);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

double gelu_erf_slope(double x) {
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979323846);
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * density;
}

double relu_slope(double x) { return x > 0 ? 1 : 0; }

void softmax_backward(const float* y, const float* d_y, int64_t n, double* d_x) {
  double along = 0;
  for (int64_t i = 0; i < n; ++i) along += double{y[i]} * d_y[i];
  for (int64_t i = 0; i < n; ++i) d_x[i] = y[i] * (d_y[i] - along);
}

double cross_entropy(const float* logits, int64_t n, int64_t target, double smoothing,
                     double* gradient) {
  const double largest = *std::max_element(logits, logits + n);
  double sum = 0, mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += std::exp(logits[i] - largest);
    mean += logits[i] / static_cast<double>(n);
  }
  softmax(logits, n, gradient);
  for (int64_t i = 0; i < n; ++i)
    gradient[i] -= smoothing / static_cast<double>(n) + (i == target ? 1 - smoothing : 0);
  return std::log(sum) + largest - (1 - smoothing) * logits[target] - smoothing * mean;
}

double squared_error(const float* x, const float* target, int64_t n, double* gradient) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = double{x[i]} - double{target[i]};
    sum += d * d / static_cast<double>(n);
    gradient[i] = 2 * d / static_cast<double>(n);
  }
  return sum;
}

double cosine_distance(const float* x, const float* target, int64_t n, double* gradient) {
  double dot = 0, xx = 0, tt = 0;
  for (int64_t i = 0; i < n; ++i) {
    dot += double{x[i]} * double{target[i]};
    xx += double{x[i]} * double{x[i]};
    tt += double{target[i]} * double{target[i]};
  }
  const double norms = std::sqrt(xx) * std::sqrt(tt);
  for (int64_t i = 0; i < n; ++i)
    gradient[i] = norms == 0 ? 0 : dot / norms * double{x[i]} / xx - double{target[i]} / norms;
  return norms == 0 ? 1 : 1 - dot / norms;
}

double kl_divergence(const float* x, const float* target, int64_t n, double inverse_temperature,
                     double* gradient) {
  const auto log_shares = [&](const float* z) {
    double largest = z[0], sum = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, double{z[i]});
    for (int64_t i = 0; i < n; ++i) sum += std::exp((double{z[i]} - largest) * inverse_temperature);
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i)
      out.push_back((double{z[i]} - largest) * inverse_temperature - std::log(sum));
    return out;
  };
  const std::vector<double> log_q = log_shares(x), log_p = log_shares(target);
  double sum = 0;
  for (size_t i = 0; i < log_q.size(); ++i) {
    sum += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
    gradient[i] = inverse_temperature * (std::exp(log_q[i]) - std::exp(log_p[i]));
  }
  return sum;
}

}  // namespace strata::ref
