// A reading of its own: an adapter on a frozen projection, column factors, a gate of two halves, a
// tied head, and four losses that share operands. Its losses and gradients against PyTorch in f64
// (tests/golden/train_ops/custom_heads.f64) and against central differences of the same
// computation written out in f64 below, which shares nothing with the tape.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "support/error_message.h"
#include "support/isa_level_test.h"
#include "train/tape_exec.h"
#include "train/train_pass.h"

namespace strata {
namespace {

constexpr int64_t N = 5, D = 8, R = 3, V = 7;
const std::vector<int32_t> kTokens = {3, 0, 6, 3, 1};
const std::vector<int32_t> kTargets = {2, 6, kIgnoreTarget, 0, 5};
constexpr double kSmoothing = 0.1, kLora = 0.5, kTemperature = 2;
constexpr double kKlShare = 0.7, kCosineShare = 0.5;
constexpr int64_t kScored = 4;

enum Weight { embedding, frozen, down, up, factors, head, kWeights };
struct Shape {
  const char* name;
  int64_t out, in;
};
constexpr Shape kShapes[kWeights] = {{"token_embd.weight", V, D}, {"frozen.weight", D, D},
                                     {"lora_a.weight", R, D},     {"lora_b.weight", D, R},
                                     {"factors", 1, D},           {"head.weight", V, D}};

std::vector<float> weight_values(int w) {
  return test_values(kShapes[w].out * kShapes[w].in, 40 + static_cast<uint32_t>(w), 0.8f);
}

// What the losses compare with: [3, D], [N, D / 2], [N, V].
std::vector<float> matched_values(int m) {
  const int64_t sizes[] = {3 * D, N * D / 2, N * V};
  return test_values(sizes[m], 50 + static_cast<uint32_t>(m), 2);
}

// A model that is nothing but weights.
struct Weights {
  Weights() {
    for (int w = 0; w < kWeights; ++w) {
      values.push_back(weight_values(w));
      WeightRef r;
      r.id = w;
      r.name = kShapes[w].name;
      r.out = kShapes[w].out;
      r.in = kShapes[w].in;
      r.bytes = std::as_bytes(std::span(values.back()));
      r.row_stride = r.in * static_cast<int64_t>(sizeof(float));
      r.element_stride = sizeof(float);
      model.weights.push_back(r);
    }
  }
  std::vector<std::vector<float>> values;
  Model model;
};

struct Heads {
  explicit Heads(int threads, Recompute recompute = Recompute::cheap, float dropout = 0)
      : parameters(weights.model, [](const WeightRef& w) { return w.id != frozen; }),
        pool(threads),
        pass(weights.model.transformer, parameters, N,
             {.dropout = dropout,
              .seed = 3,
              .recompute = recompute,
              .reading = [this](TapeExec& ex, const Batch& batch) { read(ex, batch); }},
             {&kernel_table(isa_level()), &pool}) {
    for (int m = 0; m < 3; ++m) {
      matched.push_back(matched_values(m));
      const int64_t rows = m == 0 ? 3 : N, columns = m == 0 ? D : m == 1 ? D / 2 : V;
      targets.push_back({DType::f32, rows, columns, columns, matched.back().data(), -1});
    }
  }

  const WeightRef& ref(int w) const { return weights.model.weights[static_cast<size_t>(w)]; }

  void read(TapeExec& ex, const Batch& batch) const {
    ex.begin(batch);
    const Tensor x = ex.embed({ref(embedding), {}, 1}, batch);
    const Tensor adapted = ex.linear(ex.linear(x, {ref(down), {}}), {ref(up), {}});
    const Tensor y = ex.sum(ex.linear(x, {ref(frozen), {}}), ex.scale(adapted, kLora));
    const Tensor z = ex.multiply_columns(y, ref(factors));
    const Tensor gate = ex.multiply(ex.part(z, {0, N, 0, D / 2}), ex.part(z, {0, N, D / 2, D / 2}));
    ex.match(ex.part(z, {1, 3, 0, D}), {MatchKind::squared_error, 1, 1});
    ex.match(gate, {MatchKind::cosine, 1, kCosineShare});
    const Tensor logits = ex.linear(z, {ref(head), {}});
    ex.match(logits, {MatchKind::kl, kTemperature, static_cast<float>(kKlShare)});
    ex.logits(z, {ref(head), {}});
  }

  PassInput input() {
    PassInput in{{kTokens, positions, sequences}, kTargets.data(), 1.0f / kScored};
    in.smoothing = static_cast<float>(kSmoothing);
    in.matched = targets;
    return in;
  }
  // Cross-entropy, squared error, cosine and KL.
  std::vector<double> losses() const {
    std::vector<double> all = {loss.sum};
    for (const MatchingLoss& m : pass.matches()) all.push_back(m.sum);
    return all;
  }
  void run() { loss = pass.forward_backward(input()); }

  Weights weights;
  ParameterTable parameters;
  ThreadPool pool;
  TrainPass pass;
  std::vector<std::vector<float>> matched;
  std::vector<Tensor> targets;
  std::vector<int32_t> positions = {0, 1, 2, 3, 4};
  std::vector<SequenceRows> sequences = {{0, N, 0, -1}};
  CrossEntropyLoss loss;
};

// ---- the same in f64, from weights
// ---------------------------------------------------------------

using Doubles = std::vector<double>;

Doubles product(const Doubles& x, const Doubles& w, int64_t in) {  // x w^T
  const auto rows = static_cast<int64_t>(x.size()) / in, out = static_cast<int64_t>(w.size()) / in;
  Doubles y;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t o = 0; o < out; ++o)
      y.push_back(std::inner_product(x.begin() + n * in, x.begin() + (n + 1) * in,
                                     w.begin() + o * in, 0.0));
  return y;
}

Doubles log_softmax(const double* z, int64_t n, double temperature) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(z[i] / temperature);
  Doubles out;
  for (int64_t i = 0; i < n; ++i) out.push_back(z[i] / temperature - std::log(sum));
  return out;
}

Doubles losses_in_f64(const std::vector<Doubles>& w) {
  Doubles x;
  for (const int32_t t : kTokens)
    x.insert(x.end(), w[embedding].begin() + t * D, w[embedding].begin() + (t + 1) * D);
  const Doubles adapted = product(product(x, w[down], D), w[up], R);
  Doubles z = product(x, w[frozen], D);
  for (size_t i = 0; i < z.size(); ++i) z[i] = (z[i] + kLora * adapted[i]) * w[factors][i % D];
  std::vector<Doubles> matched;
  for (int m = 0; m < 3; ++m) {
    const std::vector<float> v = matched_values(m);
    matched.emplace_back(v.begin(), v.end());
  }
  double squares = 0;
  for (size_t i = 0; i < 3 * D; ++i) squares += std::pow(z[D + i] - matched[0][i], 2) / D;
  double cosine = 0, kl = 0, entropy = 0;
  const Doubles logits = product(z, w[head], D);
  for (size_t n = 0; n < N; ++n) {
    if (kTargets[n] == kIgnoreTarget) continue;
    double dot = 0, gg = 0, mm = 0;
    for (size_t i = 0; i < D / 2; ++i) {
      const double g = z[n * D + i] * z[n * D + D / 2 + i], m = matched[1][n * D / 2 + i];
      dot += g * m;
      gg += g * g;
      mm += m * m;
    }
    cosine += 1 - dot / std::sqrt(gg * mm);
    const Doubles q = log_softmax(&logits[n * V], V, kTemperature),
                  p = log_softmax(&matched[2][n * V], V, kTemperature),
                  own = log_softmax(&logits[n * V], V, 1);
    for (size_t i = 0; i < V; ++i) {
      kl += std::exp(p[i]) * (p[i] - q[i]);
      entropy -= kSmoothing / V * own[i];
    }
    entropy -= (1 - kSmoothing) * own[static_cast<size_t>(kTargets[n])];
  }
  return {entropy, squares, cosine, kl};
}

double trained_on(const Doubles& losses) {
  return (losses[0] + losses[1] + kCosineShare * losses[2] + kKlShare * losses[3]) / kScored;
}

TEST(TapeOps, LossesAndGradientsEqualPyTorchs) {
  std::ifstream file("tests/golden/train_ops/custom_heads.f64", std::ios::binary);
  ASSERT_TRUE(file);
  const auto next = [&] {
    double x = std::nan("");
    file.read(reinterpret_cast<char*>(&x), sizeof x);
    return x;
  };
  Heads heads(2);
  heads.run();
  EXPECT_EQ(heads.loss.tokens, kScored);
  for (const double loss : heads.losses()) {
    const double wanted = next();
    EXPECT_NEAR(loss, wanted, 2e-6 * wanted);
  }
  for (const Parameter& p : heads.parameters.all()) {
    if (!p.trainable()) continue;
    for (int64_t i = 0; i < p.size(); ++i)
      ASSERT_NEAR(double{p.gradient[i]}, next(), 2e-6) << p.name << " " << i;
  }
  EXPECT_EQ(file.peek(), std::ifstream::traits_type::eof());
}

TEST(TapeOps, EveryGradientIsTheCentralDifference) {
  Heads heads(1);
  heads.run();
  std::vector<Doubles> w;
  for (int i = 0; i < kWeights; ++i) {
    const std::vector<float> v = weight_values(i);
    w.emplace_back(v.begin(), v.end());
  }
  const Doubles losses = losses_in_f64(w);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(heads.losses()[i], losses[i], 1e-5) << i;
  for (size_t k = 0; k < kWeights; ++k) {
    const Parameter& p = heads.parameters.all()[k];
    ASSERT_EQ(p.trainable(), k != frozen) << p.name;
    if (!p.trainable()) continue;
    for (size_t i = 0; i < w[k].size(); ++i) {
      constexpr double kStep = 1e-5;
      const double before = w[k][i];
      w[k][i] = before + kStep;
      const double high = trained_on(losses_in_f64(w));
      w[k][i] = before - kStep;
      const double low = trained_on(losses_in_f64(w));
      w[k][i] = before;
      ASSERT_NEAR(double{p.gradient[i]}, (high - low) / (2 * kStep), 2e-6) << p.name << " " << i;
    }
  }
}

TEST(TapeOps, NeitherThreadsNorRecomputationNorAnotherModelsDropoutChangeABit) {
  Heads one(1), three(3), blocks(1, Recompute::blocks);
  // No operation here drops but the embedding.
  Heads dropped(1, Recompute::cheap, 0.5f), dropped_too(3, Recompute::blocks, 0.5f);
  for (Heads* h : {&one, &three, &blocks, &dropped, &dropped_too}) h->run();
  const auto gradients = [](const Heads& h) {
    return std::vector<float>(h.parameters.gradients().begin(), h.parameters.gradients().end());
  };
  EXPECT_EQ(gradients(one), gradients(three));
  EXPECT_EQ(gradients(one), gradients(blocks));
  EXPECT_EQ(gradients(dropped), gradients(dropped_too));
  EXPECT_NE(gradients(one), gradients(dropped));
  // A second pass adds as much again.
  const std::vector<float> once = gradients(one);
  one.run();
  const std::vector<float> twice = gradients(one);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-6);
}

TEST(TapeOps, WhatDoesNotFitIsNamed) {
  Heads heads(1);
  PassInput in = heads.input();
  in.matched = {};
  EXPECT_EQ(message([&] { heads.pass.forward(in); }),
            "train: matched has 0 matrices, the pass 3 losses of them");
  const auto reading = [&](const std::function<void(TapeExec&, const Tensor&)>& work) {
    return message([&] {
      TapeExec ex(heads.parameters);
      const Batch batch = heads.input().batch;
      ex.begin(batch);
      work(ex, ex.embed({heads.ref(embedding), {}, 1}, batch));
    });
  };
  EXPECT_EQ(reading([](TapeExec& ex, const Tensor& x) {
              ex.part(x, {0, 5, 4, 5});
            }),
            "train: part: 5 rows from 0 and 5 columns from 4 of a matrix [5, 8]");
  EXPECT_EQ(reading([](TapeExec& ex, const Tensor& x) {
              ex.multiply(x, ex.part(x, {0, 5, 0, 4}));
            }),
            "train: multiply: b is [5, 4], wanted [5, 8]");
  EXPECT_EQ(
      reading([&](TapeExec& ex, const Tensor& x) { ex.multiply_columns(x, heads.ref(frozen)); }),
      "train: multiply_columns: 'frozen.weight' is [8, 8], wanted [1, 8]");
  // Two readers of what an activation reads: said, not asserted.
  EXPECT_EQ(message([&] {
              TapeExec ex(heads.parameters);
              const Batch batch = heads.input().batch;
              ex.begin(batch);
              const Tensor x = ex.embed({heads.ref(embedding), {}, 1}, batch);
              ex.logits(ex.sum(ex.act(x, Activation::silu), x), {heads.ref(head), {}});
              plan_tape(ex.take(), {});
            }),
            "train: what an activation, rope, attention or a branch reads is read by others too; "
            "give it scale(x, 1)");
}

}  // namespace
}  // namespace strata
