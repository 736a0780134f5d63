#include "kernels/ref/train_attention.h"

#include <algorithm>
#include <cmath>

namespace strata::ref {
namespace {

struct Dot {
  double value = 0, size = 0;
};
Dot dot(const float* a, const float* b, int n) {
  Dot d;
  for (int i = 0; i < n; ++i) {
    const double product = double{a[i]} * double{b[i]};
    d.value += product;
    d.size += std::abs(product);
  }
  return d;
}

}  // namespace

TrainAttentionResult train_attention(const TrainAttentionArgs& a) {
  const int64_t Dh = a.head_size;
  const auto floats = [&](int64_t rows) {
    return std::vector<double>(static_cast<size_t>(rows * Dh));
  };
  TrainAttentionResult r;
  r.y = r.y_size = r.d_q = r.d_q_size = floats(a.queries);
  r.d_k = r.d_k_size = r.d_v = r.d_v_size = floats(a.keys);
  const auto add = [](std::vector<double>& to, std::vector<double>& size, int64_t at, double x,
                      double magnitude) {
    to[static_cast<size_t>(at)] += x;
    size[static_cast<size_t>(at)] += magnitude;
  };
  for (int64_t i = 0; i < a.queries; ++i) {
    const int64_t begin = a.begin[i], end = a.end[i];
    if (begin >= end) continue;
    const float* q = a.q + i * Dh;
    std::vector<double> p;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t t = begin; t < end; ++t) {
      const Dot s = dot(q, a.k + t * Dh, a.head_size);
      p.push_back(a.scale * s.value);
      largest = std::max(largest, p.back());
      r.score_size = std::max(r.score_size, std::abs(a.scale) * s.size);
    }
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x /= sum;
    for (int64_t t = begin; t < end; ++t)
      for (int64_t d = 0; d < Dh; ++d) {
        const double x = p[static_cast<size_t>(t - begin)] * double{a.v[t * Dh + d]};
        add(r.y, r.y_size, i * Dh + d, x, std::abs(x));
      }
    if (a.d_y == nullptr) continue;
    const float* d_y = a.d_y + i * Dh;
    double delta = 0, delta_size = 0;
    for (int64_t d = 0; d < Dh; ++d) {
      delta += double{d_y[d]} * r.y[static_cast<size_t>(i * Dh + d)];
      delta_size += std::abs(double{d_y[d]}) * r.y_size[static_cast<size_t>(i * Dh + d)];
    }
    for (int64_t t = begin; t < end; ++t) {
      const double w = p[static_cast<size_t>(t - begin)];
      const Dot dp = dot(d_y, a.v + t * Dh, a.head_size);
      const double ds = a.scale * w * (dp.value - delta);
      const double ds_size = std::abs(a.scale) * w * (dp.size + delta_size);
      for (int64_t d = 0; d < Dh; ++d) {
        const double k = a.k[t * Dh + d], x = q[d], g = d_y[d];
        add(r.d_v, r.d_v_size, t * Dh + d, w * g, w * std::abs(g));
        add(r.d_k, r.d_k_size, t * Dh + d, ds * x, ds_size * std::abs(x));
        add(r.d_q, r.d_q_size, i * Dh + d, ds * k, ds_size * std::abs(k));
      }
    }
  }
  return r;
}

}  // namespace strata::ref
