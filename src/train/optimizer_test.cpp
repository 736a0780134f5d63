// Update rules by hand, learning rates by hand, and what orthogonalise does to singular values.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "train/gpt_model.h"
#include "train/schedule.h"

namespace strata {
namespace {

struct Small {
  Small() {
    GptConfig c;
    c.vocabulary = 5;
    c.hidden = 8;
    c.mlp = 16;
    c.context = 4;
    model = make_gpt(c, 3);
    parameters = std::make_unique<ParameterTable>(*model);
  }
  const Parameter& named(const std::string& name) const {
    for (const Parameter& p : parameters->all())
      if (p.name == name) return p;
    ADD_FAILURE() << name;
    return parameters->all()[0];
  }
  ThreadPool pool{2};
  OpContext context{&kernel_table(isa_level()), &pool};
  std::unique_ptr<Model> model;
  std::unique_ptr<ParameterTable> parameters;
};

TEST(Optimizer, SgdWithMomentumAndDecayOfMatricesOnly) {
  Small s;
  const Parameter& matrix = s.named("blk.0.attn_q.weight");
  const Parameter& norm = s.named("output_norm.weight");
  matrix.value[3] = 2;
  Optimizer optimizer(
      *s.parameters, {.kind = OptimizerKind::sgd, .momentum = 0.5, .weight_decay = 0.1}, s.context);
  matrix.gradient[3] = 4;
  norm.gradient[0] = 4;
  optimizer.step(1, 0.25, 0.5f);  // g = 2, m = 2: p = 2 (1 - 0.025) - 0.5
  EXPECT_FLOAT_EQ(matrix.value[3], 1.45f);
  EXPECT_FLOAT_EQ(norm.value[0], 0.5f);
  optimizer.step(2, 0.25, 0.5f);  // m = 3: p = 1.45 * 0.975 - 0.75
  EXPECT_FLOAT_EQ(matrix.value[3], 0.66375f);
}

TEST(Optimizer, LionStepsBySigns) {
  Small s;
  const Parameter& p = s.named("blk.0.attn_q.bias");
  Optimizer optimizer(*s.parameters, {.kind = OptimizerKind::lion, .beta1 = 0.5, .beta2 = 0.75},
                      s.context);
  p.gradient[0] = 3;
  p.gradient[1] = -0.001f;
  optimizer.step(1, 0.125, 1);
  EXPECT_FLOAT_EQ(p.value[0], -0.125f);
  EXPECT_FLOAT_EQ(p.value[1], 0.125f);
  EXPECT_EQ(p.value[2], 0.0f);
  // m[0] = 0.75; with g = -0.5 the direction is 0.5 * 0.75 - 0.25 > 0 still, with -1 it is not.
  p.gradient[0] = -0.5f;
  optimizer.step(2, 0.125, 1);
  EXPECT_FLOAT_EQ(p.value[0], -0.25f);
}

TEST(Optimizer, MuonMovesMatricesOfBlocksAllRoundAndTheRestAsAdamW) {
  Small s;
  const Parameter& matrix = s.named("blk.0.ffn_up.weight");  // [16, 8]
  const Parameter& embedding = s.named("token_embd.weight");
  std::fill_n(matrix.value, matrix.size(), 0.0f);
  for (int64_t i = 0; i < 8; ++i) matrix.gradient[i * 8 + i] = 1e-3f * static_cast<float>(i + 1);
  const float before = embedding.value[0];
  embedding.gradient[0] = 5;
  Optimizer optimizer(*s.parameters,
                      {.kind = OptimizerKind::muon, .momentum = 0.9, .weight_decay = 0}, s.context);
  optimizer.step(1, 0.1, 1);
  for (int64_t i = 0; i < 8; ++i) {
    const double moved = -matrix.value[i * 8 + i] / (0.1 * 0.2 * std::sqrt(16.0));
    EXPECT_GT(moved, 0.6) << i;  // small and large singular values alike
    EXPECT_LT(moved, 1.3) << i;
  }
  EXPECT_NEAR(embedding.value[0], before - 0.1f, 1e-6);  // AdamW's first step is lr
}

TEST(Optimizer, OrthogonaliseAppliesItsPolynomialToEachSingularValue) {
  ThreadPool pool(2);
  const OpContext context{&kernel_table(isa_level()), &pool};
  for (const bool wide : {true, false}) {
    const int64_t rows = wide ? 3 : 5, columns = wide ? 5 : 3;
    std::vector<float> x(15, 0.0f);
    const double values[] = {0.3, 2.0, 0.05};
    for (int64_t i = 0; i < 3; ++i)
      x[static_cast<size_t>(i * columns + i)] = static_cast<float>(values[i]);
    Workspace workspace;
    orthogonalise({DType::f32, rows, columns, columns, x.data(), -1}, workspace, context);
    const double norm = std::sqrt(0.3 * 0.3 + 4 + 0.05 * 0.05);
    for (int64_t i = 0; i < 3; ++i) {
      double s = values[i] / norm;
      for (int step = 0; step < 5; ++step)
        s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * std::pow(s, 5);
      EXPECT_NEAR(x[static_cast<size_t>(i * columns + i)], s, 1e-5) << i;
    }
    EXPECT_EQ(x[1], 0.0f);
  }
}

// Any matrix, also ones larger than the strips they are multiplied in, square and long: five steps
// written out in double precision.
TEST(Optimizer, OrthogonaliseTakesTheStepsOfNewtonAndSchulz) {
  ThreadPool pool(2);
  const OpContext context{&kernel_table(isa_level()), &pool};
  using Rows = std::vector<std::vector<double>>;
  const auto multiply = [](const Rows& a, const Rows& b) {
    Rows c(a.size(), std::vector<double>(b[0].size(), 0.0));
    for (size_t i = 0; i < a.size(); ++i)
      for (size_t k = 0; k < b.size(); ++k)
        for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    return c;
  };
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{150, 150},
                                      {150, 180},
                                      {140, 300},
                                      {300, 140},
                                      {180, 150},
                                      {1, 40}}) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<float> x(rows * columns);
    Rows want(rows, std::vector<double>(columns));
    double squares = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(normal(random));
      want[i / columns][i % columns] = x[i];
      squares += double{x[i]} * double{x[i]};
    }
    for (auto& row : want)
      for (double& v : row) v /= std::sqrt(squares);
    for (int step = 0; step < 5; ++step) {
      Rows across(columns, std::vector<double>(rows));
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) across[j][i] = want[i][j];
      const Rows gram = multiply(want, across);
      const Rows third = multiply(gram, want), fifth = multiply(gram, third);
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j)
          want[i][j] = 3.4445 * want[i][j] - 4.7750 * third[i][j] + 2.0315 * fifth[i][j];
    }
    Workspace workspace;
    const auto height = static_cast<int64_t>(rows), width = static_cast<int64_t>(columns);
    orthogonalise({DType::f32, height, width, width, x.data(), -1}, workspace, context);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::fabs(double{x[i]} - want[i / columns][i % columns]));
    EXPECT_LT(worst, 1e-4) << rows << " x " << columns;
  }
}

TEST(Schedule, ByHand) {
  Schedule s{ScheduleKind::cosine, 1.0, 0.1, 4, 14};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 1.0);
  EXPECT_NEAR(learning_rate(s, 7), 0.1 + 0.9 * 0.75, 1e-12);  // a third of the way: cos 60 degrees
  EXPECT_NEAR(learning_rate(s, 13), 0.1, 1e-12);
  s.kind = ScheduleKind::linear;
  EXPECT_NEAR(learning_rate(s, 7), 0.7, 1e-12);
  EXPECT_NEAR(learning_rate(s, 13), 0.1, 1e-12);
  s.kind = ScheduleKind::constant;
  EXPECT_EQ(learning_rate(s, 13), 1.0);
  s = {ScheduleKind::wsd, 1.0, 0.0, 2, 20, 0.25};
  EXPECT_EQ(learning_rate(s, 14), 1.0);
  EXPECT_EQ(learning_rate(s, 15), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 17), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 19), 0.0);
}

}  // namespace
}  // namespace strata
