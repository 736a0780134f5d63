// The gradient of a whole GPT's loss against central differences of that loss in double precision:
// every weight of a small model is moved up and down and the model computed again by RefExec, which
// shares neither tape nor kernels. And what follows from the graph alone: which tensors learn, and
// which tokens no gradient may reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "exec/ref_exec.h"
#include "kernels/kernel_table.h"
#include "support/isa_level_test.h"
#include "train/gpt_model.h"
#include "train/train_pass.h"

namespace strata {
namespace {

constexpr float kSmoothing = 0.1f;

GptConfig small_gpt() {
  GptConfig c;
  c.vocabulary = 11;
  c.layers = 2;
  c.heads = c.kv_heads = 2;
  c.hidden = 8;
  c.mlp = 12;
  c.context = 6;
  return c;
}
GptConfig small_llama() {
  GptConfig c = small_gpt();
  c.kv_heads = 1;
  c.positions = GptPositions::rotary;
  c.norm = NormKind::rms;
  c.gated = true;
  c.activation = Activation::silu;
  c.bias = c.tied = false;
  return c;
}
GptConfig small_mixture() {
  GptConfig c = small_gpt();
  c.positions = GptPositions::sinusoidal;
  c.activation = Activation::gelu_erf;
  c.tied = false;
  return c;
}

struct Rows {
  std::vector<int32_t> tokens, positions, targets;
  std::vector<SequenceRows> sequences;

  void add(const std::vector<int32_t>& more, const std::vector<int32_t>& wanted) {
    sequences.push_back(
        {static_cast<int32_t>(tokens.size()), static_cast<int32_t>(more.size()), 0, -1});
    for (size_t i = 0; i < more.size(); ++i) positions.push_back(static_cast<int32_t>(i));
    tokens.insert(tokens.end(), more.begin(), more.end());
    targets.insert(targets.end(), wanted.begin(), wanted.end());
  }
  Batch batch() const { return {tokens, positions, sequences}; }
  PassInput input() const {
    PassInput in{batch(), targets.data()};
    in.smoothing = kSmoothing;
    return in;
  }
};

// Weights large enough that attention is far from uniform.
struct Training {
  explicit Training(const GptConfig& c)
      : model(make_gpt(c, 1)),
        parameters(*model, [c](const WeightRef& w) { return is_trainable(c, w); }),
        pass(model->transformer, parameters, c.context, {}, {&kernel_table(isa_level()), &pool}) {
    uint32_t seed = 1;
    for (const Parameter& p : parameters.all()) {
      if (!p.trainable()) continue;
      const std::vector<float> values = test_values(p.size(), seed++, 0.7f);
      const float shift = p.name.find("norm.weight") != std::string::npos ? 1.0f : 0.0f;
      for (int64_t i = 0; i < p.size(); ++i) p.value[i] = values[static_cast<size_t>(i)] + shift;
    }
  }
  std::unique_ptr<Model> model;
  ThreadPool pool{1};
  ParameterTable parameters;
  TrainPass pass;
};

// Summed over the scored rows, by the definition, in f64.
double loss_in_f64(const Model& model, const Rows& rows) {
  RefExec ref;
  std::vector<int32_t> all(rows.tokens.size());
  std::iota(all.begin(), all.end(), 0);
  const Tensor logits = forward_logits(ref, model.transformer,
                                       forward_hidden(ref, model.transformer, rows.batch()), all);
  const double smoothing = double{kSmoothing};
  double sum = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    if (rows.targets[r] == kIgnoreTarget) continue;
    const double* z = logits.row<double>(static_cast<int64_t>(r));
    const double largest = *std::max_element(z, z + logits.columns);
    double total = 0, mean = 0;
    for (int64_t i = 0; i < logits.columns; ++i) {
      total += std::exp(z[i] - largest);
      mean += z[i] / static_cast<double>(logits.columns);
    }
    sum += largest + std::log(total) - (1 - smoothing) * z[rows.targets[r]] - smoothing * mean;
  }
  return sum;
}

struct NamedGpt {
  const char* name;
  GptConfig config;
};
class WholeGpt : public testing::TestWithParam<NamedGpt> {};

TEST_P(WholeGpt, EveryGradientIsTheCentralDifferenceOfTheLoss) {
  Training t(GetParam().config);
  Rows rows;
  rows.add({3, 7, 1, 1, 10, 0}, {7, kIgnoreTarget, 1, 10, 0, 5});
  rows.add({2, 9, 4}, {9, 4, kIgnoreTarget});
  const double loss = t.pass.forward_backward(rows.input()).sum;
  EXPECT_NEAR(loss, loss_in_f64(*t.model, rows), 2e-6 * loss);
  // The error of a central difference is h^2 / 6 times a third derivative, of loss of order 10
  // here.
  constexpr float kStep = 1.0f / 4096;
  double worst = 0;
  for (const Parameter& p : t.parameters.all()) {
    if (!p.trainable()) continue;
    double apart = 0, size = 0;
    for (int64_t i = 0; i < p.size(); ++i) {
      const float before = p.value[i];
      const float up = before + kStep, down = before - kStep;  // as they round
      p.value[i] = up;
      const double high = loss_in_f64(*t.model, rows);
      p.value[i] = down;
      const double low = loss_in_f64(*t.model, rows);
      p.value[i] = before;
      const double wanted = (high - low) / (double{up} - double{down});
      apart += std::pow(double{p.gradient[i]} - wanted, 2);
      size += wanted * wanted;
    }
    apart = std::sqrt(apart);
    size = std::sqrt(size);
    // By softmax's shift a key's bias does nothing, unless rotary positions follow it.
    const bool idle = p.name.find("attn_k.bias") != std::string::npos && t.model->ropes.empty();
    if (idle) {
      EXPECT_LT(size, 1e-6) << p.name;
      EXPECT_LT(apart, 1e-5) << p.name;
      continue;
    }
    EXPECT_GT(size, 1e-3) << p.name;
    EXPECT_LT(apart, 1e-5 * size) << p.name << " of norm " << size;
    worst = std::max(worst, apart / size);
  }
  std::printf("%-8s loss %.6f, worst difference %.1e\n", GetParam().name, loss, worst);
}

TEST_P(WholeGpt, EveryTensorThatMayLearnHasAGradientAndNoOther) {
  Training t(GetParam().config);
  Rows rows;
  rows.add({3, 7, 1, 1, 10, 0}, {7, 1, 1, 10, 0, 5});
  t.pass.forward_backward(rows.input());
  for (const Parameter& p : t.parameters.all()) {
    const bool table =
        p.name == "position_embd.weight" && GetParam().config.positions == GptPositions::sinusoidal;
    ASSERT_EQ(p.trainable(), !table) << p.name;
    if (table) continue;
    double square = 0;
    for (int64_t i = 0; i < p.size(); ++i) square += double{p.gradient[i]} * double{p.gradient[i]};
    const bool idle = p.name.find("attn_k.bias") != std::string::npos && t.model->ropes.empty();
    if (!idle) {
      EXPECT_GT(square, 1e-6) << p.name;
    }
  }
}

// Only row 2 is scored: tokens after it, tokens of another sequence and padding get no gradient, to
// the last bit. (Of an untied model: a tied head reaches every token.)
TEST(GradientFlow, NoGradientReachesWhatARowMayNotSee) {
  Training t(small_llama());
  const Parameter& embedding = t.parameters.all().front();
  ASSERT_EQ(embedding.name, "token_embd.weight");
  constexpr int32_t kNo = kIgnoreTarget;
  Rows rows;
  rows.add({8, 9}, {kNo, kNo});
  rows.add({1, 2, 3, 4, 5}, {kNo, kNo, 4, kNo, kNo});
  rows.add({6, 7}, {kNo, kNo});
  t.pass.forward_backward(rows.input());
  for (int32_t token = 0; token < 11; ++token) {
    double square = 0;
    for (int64_t i = 0; i < embedding.in; ++i)
      square += std::pow(double{embedding.gradient[token * embedding.in + i]}, 2);
    if (token >= 1 && token <= 3) {
      EXPECT_GT(square, 1e-8) << token;
    } else {
      EXPECT_EQ(square, 0) << token;
    }
  }
  // And what a row may not see changes neither its loss nor any gradient.
  const std::vector<float> before(t.parameters.gradients().begin(), t.parameters.gradients().end());
  const double loss = t.pass.forward(rows.input()).sum;
  rows.tokens = {0, 0, 1, 2, 3, 10, 10, 9, 9};
  t.parameters.zero_gradients();
  EXPECT_EQ(t.pass.forward_backward(rows.input()).sum, loss);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), t.parameters.gradients().begin()));
}

INSTANTIATE_TEST_SUITE_P(Layouts, WholeGpt,
                         testing::Values(NamedGpt{"gpt2", small_gpt()},
                                         NamedGpt{"llama", small_llama()},
                                         NamedGpt{"mixture", small_mixture()}),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace strata
