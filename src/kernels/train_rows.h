#pragma once

#include <cstdint>

namespace strata {

// Small operations of training on rows of f32, with the promises of rows.h, whose forward functions
// these belong to: a fixed sequence of roundings per row; NaN in an operand reaches the results it
// takes part in. eps = 2^-24; the twins in f64 are in ref/train_rows.h.

// Philox blocks in a row (base/philox.h): block i has the counter {first + i modulo 2^32, rest}.
struct PhiloxBlocks {
  uint32_t key[2];
  uint32_t first;
  uint32_t rest[3];
};

struct TrainRowKernels {
  // d_x of y = rms_norm(x), and d_weight[i] += d_y[i] x[i] r, r = 1 / sqrt(mean x^2 + epsilon):
  //   d_x = r (g - x r^2 mean(g x)),  g = d_y weight.   d_x may be d_y.
  // Err: (n / 8 + 16) eps r (|g| + |x| r^2 mean |g x|); d_weight 8 + n / 16 eps of each term.
  void (*rms_norm_backward)(const float* x, const float* weight, float epsilon, const float* d_y,
                            int64_t n, float* d_x, float* d_weight) noexcept;
  // Likewise of layer_norm, with h = (x - mean) r: d_x = r (g - mean g - h mean(g h)),
  // d_weight += d_y h, d_bias += d_y (nullptr: no bias).
  void (*layer_norm_backward)(const float* x, const float* weight, float epsilon, const float* d_y,
                              int64_t n, float* d_x, float* d_weight, float* d_bias) noexcept;

  // d_x = d_y f'(x); gated, y = f(gate) up: d_gate = d_y up f'(gate), d_up = d_y f(gate). Results
  // may be written over operands. Err: 24 eps (|d_y| (1 + |x|)), gelu_erf 3e-7 |d_y| (1 + |x|).
  struct Activations {
    void (*plain)(const float* x, const float* d_y, int64_t n, float* d_x) noexcept;
    void (*gated)(const float* gate, const float* up, const float* d_y, int64_t n, float* d_gate,
                  float* d_up) noexcept;
  };
  Activations silu, gelu_tanh, gelu_erf, relu;

  // The gradient of rope_halves and rope_pairs (rows.h): the rotation back, by the same tables.
  void (*rope_halves_backward)(const float* d_y, const float* cos, const float* sin, int64_t size,
                               float* d_x) noexcept;
  void (*rope_pairs_backward)(const float* d_y, const float* cos, const float* signed_sin,
                              int64_t n, float* d_x) noexcept;

  // d_x of y = softmax(x): y (d_y - sum y d_y).  d_x may be d_y.
  void (*softmax_backward)(const float* y, const float* d_y, int64_t n, float* d_x) noexcept;

  // Cross-entropy of one row of logits against (1 - smoothing) one-hot(target) + smoothing / n:
  // returns log sum e^z - (1 - smoothing) z[target] - smoothing mean z, and turns z into
  // factor * d loss / d z = factor (softmax(z) - (1 - smoothing) [i == target] - smoothing / n).
  // 0 <= target < n.  Err: loss (32 + 2 max |z|) eps; gradient (40 + 2 max |z - max|) eps |factor|
  // of softmax + the two constants.
  double (*cross_entropy)(float* logits, int64_t n, int64_t target, float smoothing,
                          float factor) noexcept;

  // Losses of a row x against another one, t; each also writes factor times its gradient by x to
  // d_x, which may be x (nullptr: the loss only). m: the largest |x| or |t|.
  // Mean of (x - t)^2; d_x = factor 2 (x - t) / n.  Err: loss 16 eps, d_x 4 eps of themselves.
  double (*squared_error)(const float* x, const float* target, int64_t n, float factor,
                          float* d_x) noexcept;
  // 1 - cos = 1 - x t / (|x| |t|); d_x = factor (cos x / |x|^2 - t / (|x| |t|)). A row of zeros is
  // at distance 1, with no gradient.  Err: loss 40 eps; d_x 40 eps |factor| / |x|.
  double (*cosine_distance)(const float* x, const float* target, int64_t n, float factor,
                            float* d_x) noexcept;
  // With q = softmax(x s), p = softmax(t s), s the inverse temperature: sum p (log p - log q), and
  // d_x = factor s (q - p).  Err: loss (48 + 8 s m) (1 + 4 s m) eps;
  // d_x (40 + 8 s m) eps |factor| s (q + p).
  double (*kl_divergence)(const float* x, const float* target, int64_t n, float inverse_temperature,
                          float factor, float* d_x) noexcept;

  // words[4 i .. 4 i + 3] = block i, i < count.
  void (*philox)(const PhiloxBlocks& blocks, int64_t count, uint32_t* words) noexcept;

  // y += x; y += factor x.
  void (*accumulate)(const float* x, int64_t n, float* y) noexcept;
  void (*add_scaled)(const float* x, float factor, int64_t n, float* y) noexcept;
  // Sum of squares in f64 over partial sums of 256.
  double (*sum_of_squares)(const float* x, int64_t n) noexcept;

  // One step of AdamW in place (Loshchilov & Hutter 2019, arXiv:1711.05101, as PyTorch orders it):
  //   g = gradient_factor gradient;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
  //   p = p (1 - decay) - step m / (sqrt(v) root + epsilon)
  // with decay = lr weight_decay, step = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t).
  struct AdamW {
    float beta1, beta2, epsilon, decay, step, root, gradient_factor;
  };
  void (*adamw)(const AdamW& c, const float* gradient, int64_t n, float* p, float* m,
                float* v) noexcept;

  // The k largest of x, largest first, of equals the lower index first: their indices; k <= n.
  // NaN counts as below everything. heap: k floats of scratch.
  void (*top_k)(const float* x, int64_t n, int32_t k, int32_t* index, float* heap) noexcept;
};

}  // namespace strata
