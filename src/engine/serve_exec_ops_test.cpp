// Each operation of ServeExec, on the inputs of a real pass, against RefExec in f64 with int8
// activations. Errors do not add up over layers here, so the bounds can be derived ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/random_model_for_test.h"
#include "engine/serve_exec.h"
#include "exec/ref_exec.h"
#include "model/transformer.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;

using Rows = std::vector<std::vector<double>>;  // [N][columns]
// Of row, column and wanted value.
using Bound = std::function<double(int64_t, int64_t, double)>;

double magnitude(double x) { return std::abs(x); }

// What an int8 product may be off by: rounding of its sums (ops/linear.h), and one step of the
// scale wherever the two ways to round an activation (x * (127 / amax), x / (amax / 127)) part.
Rows linear_bound(const Tensor& x, const Linear& w) {
  const int64_t in = w.weight.in;
  const bool quantised = tensor_type_info(w.weight.type).block_elements > 1;
  Rows bound(static_cast<size_t>(x.rows), std::vector<double>(static_cast<size_t>(w.weight.out)));
  Rows parted(static_cast<size_t>(x.rows), std::vector<double>(static_cast<size_t>(in)));
  if (quantised)
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t b = 0; b < in; b += 32) {
        const float* v = x.row<float>(r) + b;
        float amax = 0;
        for (int i = 0; i < 32; ++i) amax = std::max(amax, std::abs(v[i]));
        if (amax == 0) continue;
        for (int i = 0; i < 32; ++i)
          if (std::nearbyint(v[i] * (127.0f / amax)) != std::nearbyint(v[i] / (amax / 127.0f)))
            parted[static_cast<size_t>(r)][static_cast<size_t>(b + i)] = amax / 127.0;
      }
  std::vector<float> weight(static_cast<size_t>(in));
  for (int64_t o = 0; o < w.weight.out; ++o) {
    decode_weight_row(w.weight, o, weight.data());
    // |w| + 2 |offset| <= 5 times the largest of the block, for every format with an offset.
    std::vector<double> size(static_cast<size_t>(in));
    for (int64_t b = 0; b < in; b += 32) {
      double largest = 0;
      for (int64_t i = b; i < std::min(b + 32, in); ++i)
        largest = std::max(largest, magnitude(weight[static_cast<size_t>(i)]));
      for (int64_t i = b; i < std::min(b + 32, in); ++i)
        size[static_cast<size_t>(i)] =
            quantised ? 5 * largest : magnitude(weight[static_cast<size_t>(i)]);
    }
    for (int64_t r = 0; r < x.rows; ++r) {
      double sum = 0, steps = 0;
      for (int64_t i = 0; i < in; ++i) {
        sum += magnitude(x.row<float>(r)[i]) * size[static_cast<size_t>(i)];
        steps += parted[static_cast<size_t>(r)][static_cast<size_t>(i)] *
                 magnitude(weight[static_cast<size_t>(i)]);
      }
      const auto n = static_cast<double>(in);
      bound[static_cast<size_t>(r)][static_cast<size_t>(o)] =
          (quantised ? n / 16 + 18 : n + 4) * kEps * (sum + 1) + 1.01 * steps;
    }
  }
  return bound;
}

class CheckedExec : public ServeExec {
 public:
  CheckedExec(const Model& model, const ServeExecOptions& options)
      : ServeExec(model, options), ref_(int8_options()) {}

  void begin(const Batch& batch) override {
    ServeExec::begin(batch);
    ref_.begin(batch);
  }
  Tensor embed(const Embedding& w, const Batch& batch) override {
    const Tensor y = ServeExec::embed(w, batch);
    compare("embed", y, ref_.embed(w, batch),
            [&](int64_t, int64_t, double value) { return 4 * kEps * (magnitude(value) + 1); });
    return y;
  }
  Tensor norm(const Tensor& x, const Norm& w) override {
    const Tensor y = ServeExec::norm(x, w);
    compare("norm", y, ref_.norm(copy(x), w), norm_bound(x, w));
    return y;
  }
  Qkv qkv(const Tensor& x, const AttentionWeights& w, const AttentionConfig& c,
          const Batch& batch) override {
    const Qkv y = ServeExec::qkv(x, w, c, batch);
    const Qkv ref = ref_.qkv(copy(x), w, c, batch);
    compare("q", y.q, ref.q, head_bound(x, w.q, w.q_norm, c));
    compare("k", y.k, ref.k, head_bound(x, w.k, w.k_norm, c));
    const Rows v = linear_bound(x, w.v);
    compare("v", y.v, ref.v, at(v));
    return y;
  }
  Tensor attend(const Qkv& in, const AttentionConfig& c, int layer, const Batch& batch) override {
    const Tensor y = ServeExec::attend(in, c, layer, batch);
    const Tensor ref = ref_.attend({copy(in.q), copy(in.k), copy(in.v)}, c, layer, batch);
    // The bound of kernels/attention_test.cpp with coarser scales: |q . k| <= |q| |k|, values by
    // the largest of the sequence.
    for (const SequenceRows& s : batch.sequences) {
      const int group = c.heads / c.kv_heads;
      for (int h = 0; h < c.heads; ++h) {
        double key = 0, value = 0;
        for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r) {
          double sum = 0;
          for (int d = 0; d < c.head_size; ++d) {
            const int64_t i = int64_t{h / group} * c.head_size + d;
            sum += in.k.row<float>(r)[i] * in.k.row<float>(r)[i];
            value = std::max(value, magnitude(in.v.row<float>(r)[i]));
          }
          key = std::max(key, std::sqrt(sum));
        }
        for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r) {
          double query = 0;
          for (int d = 0; d < c.head_size; ++d) {
            const double q = in.q.row<float>(r)[int64_t{h} * c.head_size + d];
            query += q * q;
          }
          const double scores = c.scale * std::sqrt(query) * key * 1.001;
          const double bound = kEps * value * 1.001 *
                               (2 * (c.head_size + 6) * scores + 128 + 16 * (1 + s.rows / 64.0));
          for (int d = 0; d < c.head_size; ++d) {
            const int64_t i = int64_t{h} * c.head_size + d;
            check("attend", y.row<float>(r)[i], ref.row<double>(r)[i], bound);
          }
        }
      }
    }
    return y;
  }
  Tensor linear(const Tensor& x, const Linear& w) override {
    const Tensor y = ServeExec::linear(x, w);
    check_linear("linear", x, w, y);
    return y;
  }
  Tensor mlp(const Tensor& x, const MlpWeights& w, Activation activation) override {
    mlp_input_ = &x;
    mlp_weights_ = &w;
    return ServeExec::mlp(x, w, activation);
  }
  Tensor add(const Tensor& a, const Tensor& b) override {
    const Tensor ref = ref_.add(copy(a), copy(b));
    const Tensor y = ServeExec::add(a, b);
    compare("add", y, ref, [](int64_t, int64_t, double) { return 0.0; });
    return y;
  }
  Tensor logits(const Tensor& x, const Linear& head) override {
    const Tensor y = ServeExec::logits(x, head);
    check_linear("logits", x, head, y);
    return y;
  }

  int64_t compared = 0;

 protected:
  Tensor act(const Tensor& x, Activation activation) override {
    const Tensor y = ServeExec::act(x, activation);
    compare("act", y, ref_.act(copy(x), activation), activation_bound(x, nullptr));
    return y;
  }
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override {
    check_linear("gate", *mlp_input_, mlp_weights_->gate, gate);
    check_linear("up", *mlp_input_, mlp_weights_->up, up);
    const Tensor y = ServeExec::act_mul(gate, up, activation);
    compare("act_mul", y, ref_.act_mul(copy(gate), copy(up), activation),
            activation_bound(gate, &up));
    return y;
  }

 private:
  static RefOptions int8_options() {
    RefOptions o;
    o.activations = RefOptions::Activations::int8;
    o.kv = RefOptions::Kv::f16;
    return o;
  }
  Tensor copy(const Tensor& t) {
    std::vector<float> values;
    for (int64_t r = 0; r < t.rows; ++r)
      values.insert(values.end(), t.row<float>(r), t.row<float>(r) + t.columns);
    return ref_.tensor_of(values, t.rows, t.columns);
  }

  void check(const char* what, double got, double want, double bound) {
    ++compared;
    if (!(magnitude(got - want) <= bound) && failures_++ < 10)
      ADD_FAILURE() << what << ": " << got << ", wanted " << want << " +- " << bound;
  }

  void compare(const char* what, const Tensor& got, const Tensor& want, const Bound& bound) {
    ASSERT_EQ(got.rows, want.rows) << what;
    ASSERT_EQ(got.columns, want.columns) << what;
    for (int64_t r = 0; r < got.rows; ++r)
      for (int64_t i = 0; i < got.columns; ++i) {
        const double value = want.row<double>(r)[i];
        check(what, got.row<float>(r)[i], value, bound(r, i, value));
      }
  }

  static Bound at(const Rows& rows) {
    return [&rows](int64_t r, int64_t i, double) {
      return rows[static_cast<size_t>(r)][static_cast<size_t>(i)];
    };
  }

  void check_linear(const char* what, const Tensor& x, const Linear& w, const Tensor& y) {
    const Rows bound = linear_bound(x, w);
    compare(what, y, ref_.linear(copy(x), w), at(bound));
  }

  // kernels/rows.h, and a rounding each for RefExec's result and the weight with its offset.
  static std::vector<double> norm_weights(const Norm& w) {
    std::vector<float> weight(static_cast<size_t>(w.weight.in));
    decode_weight_row(w.weight, 0, weight.data());
    std::vector<double> out;
    for (const float v : weight) out.push_back(magnitude(v + w.weight_offset));
    return out;
  }
  static Bound norm_bound(const Tensor& x, const Norm& w) {
    return [&x, weight = norm_weights(w), &w](int64_t r, int64_t i, double value) {
      const int64_t n = w.weight.in;
      const double k = (static_cast<double>(n) / 16 + 10) * kEps;
      if (w.kind == NormKind::rms) return k * magnitude(value);
      const float* row = x.row<float>(r) + i / n * n;
      double mean = 0, variance = 0, largest = 0;
      for (int64_t j = 0; j < n; ++j) mean += row[j] / static_cast<double>(n);
      for (int64_t j = 0; j < n; ++j) {
        variance += (row[j] - mean) * (row[j] - mean) / static_cast<double>(n);
        largest = std::max(largest, magnitude(row[j]));
      }
      return k * ((largest + magnitude(mean)) / std::sqrt(variance + w.epsilon) *
                      weight[static_cast<size_t>(i % n)] +
                  1);
    };
  }

  // 12 eps of kernels/rows.h, (12 + 4 |2u|) for gelu_tanh, and RefExec's own roundings.
  static Bound activation_bound(const Tensor& gate, const Tensor* up) {
    return [&gate, up](int64_t r, int64_t i, double value) {
      const double x = gate.row<float>(r)[i];
      const double u2 = 1.6 * magnitude(x + 0.044715 * x * x * x);
      const double factor = up == nullptr ? 1 : magnitude(up->row<float>(r)[i]);
      return (16 + 4 * std::min(u2, 90.0)) * kEps * magnitude(value) + 1e-34 * (factor + 1);
    };
  }

  // A projection, then norm over each head, then the turn of each pair.
  Bound head_bound(const Tensor& x, const Linear& w, const Norm& norm, const AttentionConfig& c) {
    Rows bound = linear_bound(x, w);
    const Tensor plain = ref_.linear(copy(x), w);
    const int64_t n = c.head_size;
    const std::vector<double> weight = norm ? norm_weights(norm) : std::vector<double>();
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t head = 0; head < plain.columns; head += n) {
        double* b = bound[static_cast<size_t>(r)].data() + head;
        const double* p = plain.row<double>(r) + head;
        double squares = 0, error = 0, size = 0;
        for (int64_t i = 0; i < n; ++i) {
          squares += p[i] * p[i] / static_cast<double>(n);
          error += b[i] * b[i] / static_cast<double>(n);
        }
        if (norm) {
          const double rms = std::sqrt(squares + norm.epsilon);
          for (int64_t i = 0; i < n; ++i) {
            const double y = magnitude(p[i]) / rms * weight[static_cast<size_t>(i)];
            b[i] = 1.01 * weight[static_cast<size_t>(i)] *
                       (b[i] + magnitude(p[i]) * std::sqrt(error) / rms) / rms +
                   (static_cast<double>(n) / 16 + 10) * kEps * y;
            size = std::max(size, y);
          }
        } else {
          for (int64_t i = 0; i < n; ++i) size = std::max(size, magnitude(p[i]));
        }
        if (c.rope == nullptr) continue;
        const double largest = *std::max_element(b, b + n);
        for (int64_t i = 0; i < n; ++i) b[i] = 2 * largest + 8 * kEps * size;
      }
    return [bound = std::move(bound)](int64_t r, int64_t i, double) {
      return bound[static_cast<size_t>(r)][static_cast<size_t>(i)];
    };
  }

  RefExec ref_;
  const Tensor* mlp_input_ = nullptr;
  const MlpWeights* mlp_weights_ = nullptr;
  int failures_ = 0;
};

void check_model(const RandomModelOptions& options) {
  const auto model = random_model(options);
  ServeExecOptions serve;
  serve.threads = 2;
  serve.kv_memory = 32 << 20;
  CheckedExec ex(*model, serve);
  std::mt19937 random(11);
  std::vector<int32_t> tokens, positions;
  std::vector<SequenceRows> sequences;
  for (const int32_t length : {5, 90, 33}) {
    sequences.push_back({static_cast<int32_t>(tokens.size()), length, 0, -1});
    for (int32_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<int32_t>(random() % 211));
      positions.push_back(i);
    }
  }
  const Tensor hidden = forward_hidden(ex, model->transformer, {tokens, positions, sequences});
  const std::vector<int32_t> rows = {0, 4, 94, 127};
  forward_logits(ex, model->transformer, hidden, rows);
  EXPECT_GT(ex.compared, 128 * 96 * 10);
}

TEST(ServeExecOps, LlamaLike) {
  check_model({.linear_type = TensorType::q4_1, .rope = Rope::Layout::pairs});
}
TEST(ServeExecOps, QwenLike) {
  check_model({.linear_type = TensorType::q4_0, .tied_head = false, .qkv_bias = true});
}
TEST(ServeExecOps, GemmaLike) {
  check_model(
      {.qk_norm = true, .post_norm = true, .activation = Activation::gelu_tanh, .window = 40});
}
TEST(ServeExecOps, Gpt2Like) {
  check_model({.kv_heads = 6,
               .layer_norm = true,
               .learned_positions = true,
               .gated_mlp = false,
               .activation = Activation::gelu_tanh});
}
TEST(ServeExecOps, FloatWeights) {
  check_model({.head_size = 10,
               .hidden = 90,
               .linear_type = TensorType::f16,
               .embedding_type = TensorType::f16});
  check_model({.linear_type = TensorType::f32, .embedding_type = TensorType::f32});
}

}  // namespace
}  // namespace strata
