#pragma once

// Bodies of train_rows.h, once for all levels; included by isa_<level>_train_rows.cpp after its
// Vec.
#include "kernels/philox.inl.h"
#include "kernels/row_loops.inl.h"
#include "kernels/train_rows.h"

namespace strata {
namespace {

// Sum of f(i, count), a Vec of the elements from i on, over n; lanes past `count` must be zero.
// Four accumulators hide the latency of the adder; their order is part of the result.
template <class Fn>
inline float sum_vectors(int64_t n, Fn f) {
  Vec acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) acc[j] = add(acc[j], f(i + j * kLanes, kLanes));
  for_vectors(n - i, [&](int64_t j, int count) { acc[0] = add(acc[0], f(i + j, count)); });
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

void rms_norm_backward(const float* x, const float* weight, float epsilon, const float* d_y,
                       int64_t n, float* d_x, float* d_weight) noexcept {
  const auto length = static_cast<float>(n);
  const float inverse = inverse_root(sum_of_squares(x, 0.0f, n) / length + epsilon);
  const float along = sum_vectors(n, [&](int64_t i, int count) {
    return mul(mul(load_n(d_y + i, count), load_n(weight + i, count)), load_n(x + i, count));
  });
  const Vec r = broadcast(inverse);
  const Vec pull = broadcast(inverse * inverse * (along / length));
  for_vectors(n, [&](int64_t i, int count) {
    const Vec value = load_n(x + i, count), dy = load_n(d_y + i, count);
    const Vec g = mul(dy, load_n(weight + i, count));
    store_n(d_weight + i, fma(dy, mul(value, r), load_n(d_weight + i, count)), count);
    store_n(d_x + i, mul(fnma(value, pull, g), r), count);
  });
}

void layer_norm_backward(const float* x, const float* weight, float epsilon, const float* d_y,
                         int64_t n, float* d_x, float* d_weight, float* d_bias) noexcept {
  const auto length = static_cast<float>(n);
  const float mean = sum_of(x, n) / length;
  const float inverse = inverse_root(sum_of_squares(x, mean, n) / length + epsilon);
  const Vec shift = broadcast(mean), r = broadcast(inverse);
  const auto normal = [&](int64_t i, int count) {
    return mul(sub(load_n(x + i, count), shift), r);
  };
  const auto gradient = [&](int64_t i, int count) {
    return mul(load_n(d_y + i, count), load_n(weight + i, count));
  };
  const Vec level = broadcast(sum_vectors(n, gradient) / length);
  const Vec along = broadcast(
      sum_vectors(n,
                  [&](int64_t i, int count) { return mul(gradient(i, count), normal(i, count)); }) /
      length);
  for_vectors(n, [&](int64_t i, int count) {
    const Vec dy = load_n(d_y + i, count), h = normal(i, count), g = gradient(i, count);
    store_n(d_weight + i, fma(dy, h, load_n(d_weight + i, count)), count);
    if (d_bias != nullptr) store_n(d_bias + i, add(load_n(d_bias + i, count), dy), count);
    store_n(d_x + i, mul(fnma(h, along, sub(g, level)), r), count);
  });
}

// An activation and its slope.
struct Slope {
  Vec value;
  Vec slope;
};

inline Slope silu_slope(Vec x) {
  const Vec one = broadcast(1.0f);
  const Vec s = div(one, add(one, exp(sub(zero(), x))));
  const Vec y = mul(x, s);
  return {y, fma(y, sub(one, s), s)};  // s + x s (1 - s)
}

// x s(2u): slope s + x s (1 - s) 2u', 2u' = 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2).
inline Slope gelu_tanh_slope(Vec x) {
  const Vec one = broadcast(1.0f);
  const Vec square = mul(x, x);
  const Vec minus_2u =
      mul(mul(x, fma(square, broadcast(0.044715f), one)), broadcast(-1.5957691216057308f));
  const Vec s = div(one, add(one, exp(minus_2u)));
  const Vec y = mul(x, s);
  const Vec slope_2u = mul(fma(square, broadcast(0.134145f), one), broadcast(1.5957691216057308f));
  // Where s is 0 or 1 to the last bit the product is 0, also when x^2 has overflowed.
  const Vec rest = mul(y, sub(one, s));
  const Vec bent = if_less(zero(), abs(rest), mul(rest, slope_2u), rest);
  return {y, add(s, bent)};
}

// Phi(x) + x phi(x).
inline Slope gelu_erf_slope(Vec x) {
  const Vec phi = normal_cdf(x);
  const Vec density = mul(exp(mul(mul(x, x), broadcast(-0.5f))), broadcast(0.39894228040143268f));
  const Vec bend = mul(x, density);
  // Far out the density is 0 and x may be infinite.
  return {mul(x, phi), add(phi, if_less(zero(), density, bend, sub(density, density)))};
}

inline Slope relu_slope(Vec x) {
  const Vec y = relu(x);
  return {y, if_less(zero(), x, broadcast(1.0f), sub(y, y))};
}

template <Slope (*f)(Vec)>
void plain_backward(const float* x, const float* d_y, int64_t n, float* d_x) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    store_n(d_x + i, mul(load_n(d_y + i, count), f(load_n(x + i, count)).slope), count);
  });
}
template <Slope (*f)(Vec)>
void gated_backward(const float* gate, const float* up, const float* d_y, int64_t n, float* d_gate,
                    float* d_up) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    const Slope s = f(load_n(gate + i, count));
    const Vec dy = load_n(d_y + i, count), u = load_n(up + i, count);
    store_n(d_gate + i, mul(mul(dy, u), s.slope), count);
    store_n(d_up + i, mul(dy, s.value), count);
  });
}

void rope_halves_backward(const float* d_y, const float* cos, const float* sin, int64_t size,
                          float* d_x) noexcept {
  for_vectors(size, [&](int64_t i, int count) {
    const Vec a = load_n(d_y + i, count), b = load_n(d_y + size + i, count);
    const Vec c = load_n(cos + i, count), s = load_n(sin + i, count);
    store_n(d_x + i, fma(b, s, mul(a, c)), count);
    store_n(d_x + size + i, fnma(a, s, mul(b, c)), count);
  });
}

void rope_pairs_backward(const float* d_y, const float* cos, const float* signed_sin, int64_t n,
                         float* d_x) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    const Vec v = load_n(d_y + i, count);
    const Vec turned = mul(v, load_n(cos + i, count));
    store_n(d_x + i, fnma(swap_pairs(v), load_n(signed_sin + i, count), turned), count);
  });
}

void softmax_backward(const float* y, const float* d_y, int64_t n, float* d_x) noexcept {
  const Vec along = broadcast(sum_vectors(
      n, [&](int64_t i, int count) { return mul(load_n(y + i, count), load_n(d_y + i, count)); }));
  for_vectors(n, [&](int64_t i, int count) {
    store_n(d_x + i, mul(load_n(y + i, count), sub(load_n(d_y + i, count), along)), count);
  });
}

double cross_entropy(float* logits, int64_t n, int64_t target, float smoothing,
                     float factor) noexcept {
  const float largest = max_value(logits, n);
  const double sum = sum_exp(logits, largest, n);
  const double hit = 1.0 - static_cast<double>(smoothing);
  double loss =
      __builtin_log(sum) + static_cast<double>(largest) - hit * static_cast<double>(logits[target]);
  if (smoothing != 0) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += static_cast<double>(logits[i]);
    loss -= static_cast<double>(smoothing) * total / static_cast<double>(n);
  }
  const Vec scale = broadcast(factor / static_cast<float>(sum));
  const Vec shift = broadcast(largest);
  const Vec everywhere = broadcast(factor * smoothing / static_cast<float>(n));
  for_vectors(n, [&](int64_t i, int count) {
    const Vec e = exp(sub(load_n(logits + i, count), shift));
    store_n(logits + i, sub(mul(e, scale), everywhere), count);
  });
  logits[target] -= factor * static_cast<float>(hit);
  return loss;
}

// Sum of f(i, count) over n in f64, from blocks of 256; lanes past `count` must be zero.
template <class Fn>
inline double sum_blocks(int64_t n, Fn f) {
  constexpr int64_t kBlock = 256;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock)
    total +=
        static_cast<double>(sum_vectors(n - begin < kBlock ? n - begin : kBlock,
                                        [&](int64_t i, int count) { return f(begin + i, count); }));
  return total;
}

double squared_error(const float* x, const float* target, int64_t n, float factor,
                     float* d_x) noexcept {
  const auto difference = [&](int64_t i, int count) {
    return sub(load_n(x + i, count), load_n(target + i, count));
  };
  const double sum = sum_blocks(n, [&](int64_t i, int count) {
    const Vec d = difference(i, count);
    return mul(d, d);
  });
  if (d_x != nullptr) {
    const Vec slope = broadcast(2.0f * factor / static_cast<float>(n));
    for_vectors(n, [&](int64_t i, int count) {
      store_n(d_x + i, mul(difference(i, count), slope), count);
    });
  }
  return sum / static_cast<double>(n);
}

double cosine_distance(const float* x, const float* target, int64_t n, float factor,
                       float* d_x) noexcept {
  const auto dot = [n](const float* a, const float* b) {
    return sum_blocks(
        n, [&](int64_t i, int count) { return mul(load_n(a + i, count), load_n(b + i, count)); });
  };
  const double square = dot(x, x);
  const double norms = __builtin_sqrt(square) * __builtin_sqrt(dot(target, target));
  // Not of a NaN, which goes on.
  const bool none = norms == 0;
  const double cosine = none ? 0 : dot(x, target) / norms;
  if (d_x != nullptr) {
    const double f = static_cast<double>(factor);
    const Vec own = broadcast(none ? 0.0f : static_cast<float>(f * cosine / square));
    const Vec other = broadcast(none ? 0.0f : static_cast<float>(f / norms));
    for_vectors(n, [&](int64_t i, int count) {
      store_n(d_x + i, fnma(load_n(target + i, count), other, mul(load_n(x + i, count), own)),
              count);
    });
  }
  return 1.0 - cosine;
}

double kl_divergence(const float* x, const float* target, int64_t n, float inverse_temperature,
                     float factor, float* d_x) noexcept {
  const float x_max = max_value(x, n), t_max = max_value(target, n);
  const Vec scale = broadcast(inverse_temperature);
  const Vec x_shift = broadcast(x_max), t_shift = broadcast(t_max);
  constexpr int64_t kBlock = 256;
  double x_sum = 0, t_sum = 0, apart = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    Vec x_part = zero(), t_part = zero(), apart_part = zero();
    const auto take = [&](Vec xs, Vec ts, Vec& a, Vec& b, Vec& c) {
      const Vec u = mul(sub(xs, x_shift), scale), v = mul(sub(ts, t_shift), scale);
      const Vec e = exp(v);
      a = add(a, exp(u));
      b = add(b, e);
      c = fma(e, sub(v, u), c);
    };
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      take(load(x + i), load(target + i), x_part, t_part, apart_part);
    float parts[3] = {reduce_add(x_part), reduce_add(t_part), reduce_add(apart_part)};
    for (; i < end; ++i) {
      Vec a = zero(), b = zero(), c = zero();
      take(broadcast(x[i]), broadcast(target[i]), a, b, c);
      parts[0] += first_lane(a);
      parts[1] += first_lane(b);
      parts[2] += first_lane(c);
    }
    x_sum += static_cast<double>(parts[0]);
    t_sum += static_cast<double>(parts[1]);
    apart += static_cast<double>(parts[2]);
  }
  if (d_x != nullptr) {
    const double f = static_cast<double>(factor) * static_cast<double>(inverse_temperature);
    const Vec x_share = broadcast(static_cast<float>(f / x_sum));
    const Vec t_share = broadcast(static_cast<float>(f / t_sum));
    for_vectors(n, [&](int64_t i, int count) {
      const Vec q = exp(mul(sub(load_n(x + i, count), x_shift), scale));
      const Vec p = exp(mul(sub(load_n(target + i, count), t_shift), scale));
      store_n(d_x + i, fnma(p, t_share, mul(q, x_share)), count);
    });
  }
  return apart / t_sum + __builtin_log(x_sum) - __builtin_log(t_sum);
}

void accumulate(const float* x, int64_t n, float* y) noexcept {
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, add(load_n(y + i, count), load_n(x + i, count)), count);
  });
}

void add_scaled(const float* x, float factor, int64_t n, float* y) noexcept {
  const Vec f = broadcast(factor);
  for_vectors(n, [&](int64_t i, int count) {
    store_n(y + i, fma(load_n(x + i, count), f, load_n(y + i, count)), count);
  });
}

double sum_of_squares_f64(const float* x, int64_t n) noexcept {
  constexpr int64_t kBlock = 256;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock)
    total += static_cast<double>(
        sum_of_squares(x + begin, 0.0f, n - begin < kBlock ? n - begin : kBlock));
  return total;
}

void adamw(const TrainRowKernels::AdamW& c, const float* gradient, int64_t n, float* p, float* m,
           float* v) noexcept {
  const Vec factor = broadcast(c.gradient_factor), epsilon = broadcast(c.epsilon);
  const Vec beta1 = broadcast(c.beta1), rest1 = broadcast(1.0f - c.beta1);
  const Vec beta2 = broadcast(c.beta2), rest2 = broadcast(1.0f - c.beta2);
  const Vec keep = broadcast(1.0f - c.decay), step = broadcast(c.step), root = broadcast(c.root);
  for_vectors(n, [&](int64_t i, int count) {
    const Vec g = mul(load_n(gradient + i, count), factor);
    const Vec mean = fma(beta1, load_n(m + i, count), mul(rest1, g));
    const Vec square = fma(beta2, load_n(v + i, count), mul(rest2, mul(g, g)));
    store_n(m + i, mean, count);
    store_n(v + i, square, count);
    const Vec size = fma(square_root(square), root, epsilon);
    store_n(p + i, fnma(step, div(mean, size), mul(load_n(p + i, count), keep)), count);
  });
}

// Heap entry `a` is to be thrown out before entry `b`: smaller, of equals the later.
inline bool worse(float value_a, int32_t index_a, float value_b, int32_t index_b) {
  return value_a < value_b || (value_a == value_b && index_a > index_b);
}

// Lets the entry (value, at) sink from place i of a heap of k whose top is the worst.
inline void sink(float* value, int32_t* index, int32_t k, int32_t i, float v, int32_t at) {
  for (;;) {
    int32_t child = 2 * i + 1;
    if (child >= k) break;
    if (child + 1 < k && worse(value[child + 1], index[child + 1], value[child], index[child]))
      ++child;
    if (!worse(value[child], index[child], v, at)) break;
    value[i] = value[child];
    index[i] = index[child];
    i = child;
  }
  value[i] = v;
  index[i] = at;
}

void top_k(const float* x, int64_t n, int32_t k, int32_t* index, float* heap) noexcept {
  if (k <= 0) return;
  const float lowest = -__builtin_inff();
  const auto ordered = [&](float v) { return v == v ? v : lowest; };
  for (int32_t i = 0; i < k; ++i) {
    heap[i] = ordered(x[i]);
    index[i] = i;
  }
  for (int32_t i = k / 2 - 1; i >= 0; --i) sink(heap, index, k, i, heap[i], index[i]);
  // A later element of equal value never displaces an earlier one.
  const auto offer = [&](int64_t i) {
    if (x[i] > heap[0]) sink(heap, index, k, 0, x[i], static_cast<int32_t>(i));
  };
  int64_t i = k;
  for (; i + kLanes <= n; i += kLanes)
    if (any_less(broadcast(heap[0]), load(x + i)))
      for (int64_t j = i; j < i + kLanes; ++j) offer(j);
  for (; i < n; ++i) offer(i);
  // The worst goes to the end, as the heap shrinks.
  for (int32_t size = k - 1; size > 0; --size) {
    const float v = heap[size];
    const int32_t at = index[size];
    heap[size] = heap[0];
    index[size] = index[0];
    sink(heap, index, size, 0, v, at);
  }
}

constexpr TrainRowKernels kTable = {
    .rms_norm_backward = rms_norm_backward,
    .layer_norm_backward = layer_norm_backward,
    .silu = {plain_backward<silu_slope>, gated_backward<silu_slope>},
    .gelu_tanh = {plain_backward<gelu_tanh_slope>, gated_backward<gelu_tanh_slope>},
    .gelu_erf = {plain_backward<gelu_erf_slope>, gated_backward<gelu_erf_slope>},
    .relu = {plain_backward<relu_slope>, gated_backward<relu_slope>},
    .rope_halves_backward = rope_halves_backward,
    .rope_pairs_backward = rope_pairs_backward,
    .softmax_backward = softmax_backward,
    .cross_entropy = cross_entropy,
    .squared_error = squared_error,
    .cosine_distance = cosine_distance,
    .kl_divergence = kl_divergence,
    .philox = philox,
    .accumulate = accumulate,
    .add_scaled = add_scaled,
    .sum_of_squares = sum_of_squares_f64,
    .adamw = adamw,
    .top_k = top_k,
};

}  // namespace
}  // namespace strata
