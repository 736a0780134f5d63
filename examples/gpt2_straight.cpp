// GPT-2, forward and backward, in one file of plain loops: the first thing to read.
//
// It shares no code with the rest of the project, so that each can be checked against the other
// (src/train/gpt2_straight_test.cpp). No libraries, no classes, no cleverness; every matrix is
// row-major. Letters as everywhere here: B sequences, T tokens of each, N = B T rows, D width, H
// heads, F = 4 D inside the MLP, V vocabulary, L layers.
//
//   gpt2_straight            times steps of the 124M model on 4 x 64 random tokens
//   gpt2_straight FILE       reads a model and a batch, writes loss and gradients to FILE.out
//
// FILE: int32 V, T_max, L, H, D, B, T; then the weights as float32 in the order of struct Weights
// below, layer by layer within a layer's line; then B x (T + 1) int32 tokens. FILE.out: the mean
// loss and the gradients in the same order, float64 and float32.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

typedef std::vector<float> Floats;

struct Sizes {
  int32_t V, T_max, L, H, D, B, T;
};

// Weights of one block; the gradients have the same shape, so the struct serves for both.
struct Block {
  Floats ln1_w, ln1_b;    // [D]
  Floats qkv_w, qkv_b;    // [3 D, D], [3 D]
  Floats proj_w, proj_b;  // [D, D], [D]
  Floats ln2_w, ln2_b;    // [D]
  Floats up_w, up_b;      // [F, D], [F]
  Floats down_w, down_b;  // [D, F], [D]
};
struct Weights {
  Floats wte;  // [V, D]: the embedding, and the head
  Floats wpe;  // [T_max, D]
  std::vector<Block> blocks;
  Floats lnf_w, lnf_b;  // [D]
};

static Weights make_weights(const Sizes& s) {
  const size_t D = s.D, F = 4 * D;
  Weights w;
  w.wte.assign(s.V * D, 0);
  w.wpe.assign(s.T_max * D, 0);
  w.lnf_w.assign(D, 0);
  w.lnf_b.assign(D, 0);
  Block b;
  b.ln1_w = b.ln1_b = b.ln2_w = b.ln2_b = b.proj_b = b.down_b = Floats(D, 0);
  b.qkv_w.assign(3 * D * D, 0);
  b.qkv_b.assign(3 * D, 0);
  b.proj_w.assign(D * D, 0);
  b.up_w.assign(F * D, 0);
  b.up_b.assign(F, 0);
  b.down_w.assign(D * F, 0);
  w.blocks.assign(s.L, b);
  return w;
}

// All tensors in their order in a file.
template <typename Fn>
static void each_tensor(Weights& w, Fn fn) {
  fn(w.wte);
  fn(w.wpe);
  for (Block& b : w.blocks)
    for (Floats* t : {&b.ln1_w, &b.ln1_b, &b.qkv_w, &b.qkv_b, &b.proj_w, &b.proj_b, &b.ln2_w,
                      &b.ln2_b, &b.up_w, &b.up_b, &b.down_w, &b.down_b})
      fn(*t);
  fn(w.lnf_w);
  fn(w.lnf_b);
}

// What backward needs of one block's forward.
struct Saved {
  Floats x;         // [N, D]: the block's input
  Floats ln1;       // [N, D]
  Floats qkv;       // [N, 3 D]
  Floats p;         // [B, H, T, T]: the weights of attention
  Floats heads;     // [N, D]: their outputs, side by side
  Floats middle;    // [N, D]: the stream between attention and MLP
  Floats ln2;       // [N, D]
  Floats up, gelu;  // [N, F]
};

// ---- y = x w^T + b
// --------------------------------------------------------------------------------

static void linear(const Floats& x, const Floats& w, const Floats& b, int rows, int in, int out,
                   Floats& y) {
#pragma omp parallel for
  for (int n = 0; n < rows; ++n)
    for (int o = 0; o < out; ++o) {
      float sum = b.empty() ? 0 : b[o];
      for (int i = 0; i < in; ++i) sum += x[size_t(n) * in + i] * w[size_t(o) * in + i];
      y[size_t(n) * out + o] = sum;
    }
}

// d_x += d_y w;  d_w += d_y^T x;  d_b += the column sums of d_y.
static void linear_backward(const Floats& x, const Floats& w, const Floats& d_y, int rows, int in,
                            int out, Floats& d_x, Floats& d_w, Floats* d_b) {
#pragma omp parallel for
  for (int n = 0; n < rows; ++n)
    for (int o = 0; o < out; ++o)
      for (int i = 0; i < in; ++i)
        d_x[size_t(n) * in + i] += d_y[size_t(n) * out + o] * w[size_t(o) * in + i];
#pragma omp parallel for
  for (int o = 0; o < out; ++o)
    for (int n = 0; n < rows; ++n) {
      const float d = d_y[size_t(n) * out + o];
      for (int i = 0; i < in; ++i) d_w[size_t(o) * in + i] += d * x[size_t(n) * in + i];
      if (d_b != nullptr) (*d_b)[o] += d;
    }
}

// ---- y = (x - mean) / sqrt(variance + 1e-5) * w + b, row by row
// ------------------------------------

static void layer_norm(const Floats& x, const Floats& w, const Floats& b, int rows, int D,
                       Floats& y) {
#pragma omp parallel for
  for (int n = 0; n < rows; ++n) {
    const float* row = &x[size_t(n) * D];
    float mean = 0, variance = 0;
    for (int i = 0; i < D; ++i) mean += row[i] / D;
    for (int i = 0; i < D; ++i) variance += (row[i] - mean) * (row[i] - mean) / D;
    const float r = 1 / std::sqrt(variance + 1e-5f);
    for (int i = 0; i < D; ++i) y[size_t(n) * D + i] = (row[i] - mean) * r * w[i] + b[i];
  }
}

// With h = (x - mean) r and g = d_y w:  d_x += r (g - mean(g) - h mean(g h)).
static void layer_norm_backward(const Floats& x, const Floats& w, const Floats& d_y, int rows,
                                int D, Floats& d_x, Floats& d_w, Floats& d_b) {
  for (int n = 0; n < rows; ++n) {
    const float* row = &x[size_t(n) * D];
    const float* d = &d_y[size_t(n) * D];
    float mean = 0, variance = 0, mean_g = 0, mean_gh = 0;
    for (int i = 0; i < D; ++i) mean += row[i] / D;
    for (int i = 0; i < D; ++i) variance += (row[i] - mean) * (row[i] - mean) / D;
    const float r = 1 / std::sqrt(variance + 1e-5f);
    for (int i = 0; i < D; ++i) {
      const float h = (row[i] - mean) * r;
      mean_g += d[i] * w[i] / D;
      mean_gh += d[i] * w[i] * h / D;
      d_w[i] += d[i] * h;
      d_b[i] += d[i];
    }
    for (int i = 0; i < D; ++i) {
      const float h = (row[i] - mean) * r;
      d_x[size_t(n) * D + i] += r * (d[i] * w[i] - mean_g - h * mean_gh);
    }
  }
}

// ---- GELU, tanh form: y = x / 2 (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3)
// -------------------

static const float kGelu = 0.7978845608f, kCubic = 0.044715f;

static void gelu(const Floats& x, Floats& y) {
#pragma omp parallel for
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = 0.5f * x[i] * (1 + std::tanh(kGelu * (x[i] + kCubic * x[i] * x[i] * x[i])));
}

static void gelu_backward(const Floats& x, const Floats& d_y, Floats& d_x) {
#pragma omp parallel for
  for (size_t i = 0; i < x.size(); ++i) {
    const float t = std::tanh(kGelu * (x[i] + kCubic * x[i] * x[i] * x[i]));
    const float d_u = kGelu * (1 + 3 * kCubic * x[i] * x[i]);
    d_x[i] = d_y[i] * (0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * d_u);
  }
}

// ---- causal attention: p = softmax(q k^T / sqrt(Dh)) over the past, y = p v
// -------------------------

static void attention(const Sizes& s, const Floats& qkv, Floats& p, Floats& y) {
  const int D = s.D, Dh = D / s.H, T = s.T;
  const float scale = 1 / std::sqrt(float(Dh));
#pragma omp parallel for collapse(2)
  for (int b = 0; b < s.B; ++b)
    for (int h = 0; h < s.H; ++h)
      for (int i = 0; i < T; ++i) {
        const float* q = &qkv[size_t(b * T + i) * 3 * D + h * Dh];
        float* weights = &p[(size_t(b * s.H + h) * T + i) * T];
        float largest = -INFINITY, sum = 0;
        for (int t = 0; t <= i; ++t) {
          const float* k = &qkv[size_t(b * T + t) * 3 * D + D + h * Dh];
          float score = 0;
          for (int d = 0; d < Dh; ++d) score += q[d] * k[d];
          weights[t] = score * scale;
          largest = std::fmax(largest, weights[t]);
        }
        for (int t = 0; t <= i; ++t) sum += weights[t] = std::exp(weights[t] - largest);
        float* out = &y[size_t(b * T + i) * D + h * Dh];
        for (int d = 0; d < Dh; ++d) out[d] = 0;
        for (int t = 0; t <= i; ++t) {
          weights[t] /= sum;
          const float* v = &qkv[size_t(b * T + t) * 3 * D + 2 * D + h * Dh];
          for (int d = 0; d < Dh; ++d) out[d] += weights[t] * v[d];
        }
      }
}

// d_p = d_y v^T;  d_score = p (d_p - sum p d_p);  d_q, d_k and d_v follow.
static void attention_backward(const Sizes& s, const Floats& qkv, const Floats& p,
                               const Floats& d_y, Floats& d_qkv) {
  const int D = s.D, Dh = D / s.H, T = s.T;
  const float scale = 1 / std::sqrt(float(Dh));
#pragma omp parallel for collapse(2)
  for (int b = 0; b < s.B; ++b)
    for (int h = 0; h < s.H; ++h) {
      Floats d_p(T);
      for (int i = 0; i < T; ++i) {
        const float* weights = &p[(size_t(b * s.H + h) * T + i) * T];
        const float* d_out = &d_y[size_t(b * T + i) * D + h * Dh];
        const float* q = &qkv[size_t(b * T + i) * 3 * D + h * Dh];
        float* d_q = &d_qkv[size_t(b * T + i) * 3 * D + h * Dh];
        float along = 0;
        for (int t = 0; t <= i; ++t) {
          const float* v = &qkv[size_t(b * T + t) * 3 * D + 2 * D + h * Dh];
          float* d_v = &d_qkv[size_t(b * T + t) * 3 * D + 2 * D + h * Dh];
          d_p[t] = 0;
          for (int d = 0; d < Dh; ++d) {
            d_p[t] += d_out[d] * v[d];
            d_v[d] += weights[t] * d_out[d];
          }
          along += weights[t] * d_p[t];
        }
        for (int t = 0; t <= i; ++t) {
          const float d_score = weights[t] * (d_p[t] - along) * scale;
          const float* k = &qkv[size_t(b * T + t) * 3 * D + D + h * Dh];
          float* d_k = &d_qkv[size_t(b * T + t) * 3 * D + D + h * Dh];
          for (int d = 0; d < Dh; ++d) {
            d_q[d] += d_score * k[d];
            d_k[d] += d_score * q[d];
          }
        }
      }
    }
}

static void add(const Floats& x, Floats& y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

// ---- the model
// ------------------------------------------------------------------------------------

// Mean loss of each token's successor; adds its gradient to `g`.
static double forward_backward(const Sizes& s, const Weights& w, const std::vector<int32_t>& tokens,
                               Weights& g) {
  const int D = s.D, F = 4 * D, N = s.B * s.T;
  const size_t stream = size_t(N) * D, inside = size_t(N) * F;  // numbers of [N, D] and [N, F]

  // Forward. Tokens [B, T + 1]: row b's inputs are its first T, its targets the last T.
  Floats x(stream);
  for (int n = 0; n < N; ++n) {
    const int32_t token = tokens[n / s.T * (s.T + 1) + n % s.T];
    for (int i = 0; i < D; ++i)
      x[size_t(n) * D + i] = w.wte[size_t(token) * D + i] + w.wpe[size_t(n % s.T) * D + i];
  }
  std::vector<Saved> saved(s.L);
  for (int l = 0; l < s.L; ++l) {
    const Block& b = w.blocks[l];
    Saved& a = saved[l];
    a.x = x;
    a.ln1.resize(stream);
    a.qkv.resize(3 * stream);
    a.p.resize(size_t(s.B) * s.H * s.T * s.T);
    a.heads.resize(stream);
    a.ln2.resize(stream);
    a.up.resize(inside);
    a.gelu.resize(inside);
    Floats branch(stream);
    layer_norm(x, b.ln1_w, b.ln1_b, N, D, a.ln1);
    linear(a.ln1, b.qkv_w, b.qkv_b, N, D, 3 * D, a.qkv);
    attention(s, a.qkv, a.p, a.heads);
    linear(a.heads, b.proj_w, b.proj_b, N, D, D, branch);
    add(branch, x);
    a.middle = x;
    layer_norm(x, b.ln2_w, b.ln2_b, N, D, a.ln2);
    linear(a.ln2, b.up_w, b.up_b, N, D, F, a.up);
    gelu(a.up, a.gelu);
    linear(a.gelu, b.down_w, b.down_b, N, F, D, branch);
    add(branch, x);
  }
  Floats last(stream), logits(size_t(N) * s.V);
  layer_norm(x, w.lnf_w, w.lnf_b, N, D, last);
  linear(last, w.wte, Floats(), N, D, s.V, logits);

  // Loss; the logits become its gradient: (softmax - one at the target) / N.
  double loss = 0;
  for (int n = 0; n < N; ++n) {
    float* z = &logits[size_t(n) * s.V];
    const int32_t target = tokens[n / s.T * (s.T + 1) + n % s.T + 1];
    float largest = z[0];
    double sum = 0;
    for (int v = 0; v < s.V; ++v) largest = std::fmax(largest, z[v]);
    for (int v = 0; v < s.V; ++v) sum += std::exp(z[v] - largest);
    loss += (std::log(sum) + largest - z[target]) / N;
    for (int v = 0; v < s.V; ++v) z[v] = float(std::exp(z[v] - largest) / sum / N);
    z[target] -= 1.0f / N;
  }

  // Backward, in the opposite order. d_x is the gradient of the stream.
  Floats d_last(stream, 0), d_x(stream, 0);
  linear_backward(last, w.wte, logits, N, D, s.V, d_last, g.wte, nullptr);
  layer_norm_backward(x, w.lnf_w, d_last, N, D, d_x, g.lnf_w, g.lnf_b);
  for (int l = s.L - 1; l >= 0; --l) {
    const Block& b = w.blocks[l];
    Block& d = g.blocks[l];
    const Saved& a = saved[l];
    Floats d_gelu(inside, 0), d_up(inside), d_ln2(stream, 0), d_heads(stream, 0),
        d_qkv(3 * stream, 0), d_ln1(stream, 0);
    linear_backward(a.gelu, b.down_w, d_x, N, F, D, d_gelu, d.down_w, &d.down_b);
    gelu_backward(a.up, d_gelu, d_up);
    linear_backward(a.ln2, b.up_w, d_up, N, D, F, d_ln2, d.up_w, &d.up_b);
    layer_norm_backward(a.middle, b.ln2_w, d_ln2, N, D, d_x, d.ln2_w, d.ln2_b);
    linear_backward(a.heads, b.proj_w, d_x, N, D, D, d_heads, d.proj_w, &d.proj_b);
    attention_backward(s, a.qkv, a.p, d_heads, d_qkv);
    linear_backward(a.ln1, b.qkv_w, d_qkv, N, D, 3 * D, d_ln1, d.qkv_w, &d.qkv_b);
    layer_norm_backward(a.x, b.ln1_w, d_ln1, N, D, d_x, d.ln1_w, d.ln1_b);
  }
  for (int n = 0; n < N; ++n) {
    const int32_t token = tokens[n / s.T * (s.T + 1) + n % s.T];
    for (int i = 0; i < D; ++i) {
      g.wte[size_t(token) * D + i] += d_x[size_t(n) * D + i];
      g.wpe[size_t(n % s.T) * D + i] += d_x[size_t(n) * D + i];
    }
  }
  return loss;
}

// ---- the program
// ----------------------------------------------------------------------------------

static int fail(const char* what) {
  std::fprintf(stderr, "gpt2_straight: %s\n", what);
  return 1;
}

static int run_file(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return fail("the file cannot be read");
  Sizes s;
  bool whole = std::fread(&s, sizeof s, 1, file) == 1;
  if (!whole || s.V < 1 || s.L < 1 || s.H < 1 || s.D < 1 || s.D % s.H != 0 || s.B < 1 || s.T < 1 ||
      s.T > s.T_max || s.V > 1 << 20 || s.T_max > 1 << 20 || s.L > 1000 || s.D > 1 << 14 ||
      s.B > 1 << 16)
    return fail("the sizes in the file do not fit together");
  Weights w = make_weights(s), g = make_weights(s);
  each_tensor(w, [&](Floats& t) {
    whole = whole && std::fread(t.data(), sizeof(float), t.size(), file) == t.size();
  });
  std::vector<int32_t> tokens(size_t(s.B) * (s.T + 1));
  whole = whole && std::fread(tokens.data(), sizeof(int32_t), tokens.size(), file) == tokens.size();
  std::fclose(file);
  for (const int32_t t : tokens) whole = whole && t >= 0 && t < s.V;
  if (!whole) return fail("the file is cut off, or has a token outside the vocabulary");

  const double loss = forward_backward(s, w, tokens, g);
  std::printf("loss %.6f\n", loss);
  std::FILE* out = std::fopen((std::string(path) + ".out").c_str(), "wb");
  if (out == nullptr) return fail("the results cannot be written");
  bool written = std::fwrite(&loss, sizeof loss, 1, out) == 1;
  each_tensor(g, [&](Floats& t) {
    written = written && std::fwrite(t.data(), sizeof(float), t.size(), out) == t.size();
  });
  return std::fclose(out) == 0 && written ? 0 : fail("the results cannot be written");
}

static int time_steps() {
  const Sizes s = {50257, 1024, 12, 12, 768, 4, 64};
  Weights w = make_weights(s), g = make_weights(s);
  std::srand(1);
  each_tensor(w, [](Floats& t) {
    for (float& x : t) x = 0.02f * (2.0f * std::rand() / RAND_MAX - 1);
  });
  std::vector<int32_t> tokens(size_t(s.B) * (s.T + 1));
  for (int32_t& t : tokens) t = std::rand() % s.V;
  for (int step = 0; step < 3; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const double loss = forward_backward(s, w, tokens, g);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("loss %.4f, %.2f s, %.1f tokens/s\n", loss, seconds.count(),
                s.B * s.T / seconds.count());
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 2) return fail("wanted one file, or none");
  return argc == 2 ? run_file(argv[1]) : time_steps();
}
