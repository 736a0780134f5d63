#include "bench/attention_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace strata {
namespace {

// By hand: scores [2 0; 0 2], halved [1 0; 0 1], weights e / (e + 1) and 1 / (e + 1).
TEST(Attention, TheHandCase) {
  const std::vector<double> q = {1, 0, 1, 0, 0, 1, 0, 1};
  const AttentionShape shape{.queries = 2, .keys = 2, .head_size = 4};
  const AttentionSteps s =
      attention(q, q, {10, 20, 30, 40, 5, 15, 25, 35}, shape, 0.5, AttentionView::full);
  EXPECT_EQ(s.scores, (std::vector<double>{2, 0, 0, 2}));
  EXPECT_NEAR(s.weights[0], 0.731, 5e-4);
  EXPECT_NEAR(s.weights[1], 0.269, 5e-4);
  EXPECT_NEAR(s.out[0], 0.7310586 * 10 + 0.2689414 * 5, 1e-5);
  EXPECT_NEAR(s.out[7], 0.2689414 * 40 + 0.7310586 * 35, 1e-5);
  const AttentionSteps causal =
      attention(q, q, {10, 20, 30, 40, 5, 15, 25, 35}, shape, 0.5, AttentionView::causal);
  EXPECT_EQ(causal.weights[0], 1);
  EXPECT_EQ(causal.weights[1], 0);
  EXPECT_NEAR(causal.weights[2], 0.269, 5e-4);
}

TEST(Attention, RowsSumToOneInEveryHeadOfCrossAttention) {
  const AttentionShape shape{2, 4, 2, 3, 5, 2};
  std::vector<double> q(48), k(40), v(40);
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<double>(i) * 1.7);
  for (size_t i = 0; i < k.size(); ++i) k[i] = std::cos(static_cast<double>(i) * 2.3);
  v = k;
  const AttentionSteps s = attention(q, k, v, shape, 1, AttentionView::full);
  ASSERT_EQ(s.weights.size(), 2u * 4 * 3 * 5);
  for (size_t row = 0; row < 24; ++row) {
    double sum = 0;
    for (size_t t = 0; t < 5; ++t) sum += s.weights[row * 5 + t];
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  // Two query heads share one head of keys.
  EXPECT_NEAR(s.scores[(1 * 3) * 5], q[3 * 2] * k[0] + q[3 * 2 + 1] * k[1], 1e-12);
  EXPECT_THROW(attention(q, k, {1}, shape, 1, AttentionView::full), Error);
}

// What a mask hides is as if it were not there; a query that sees nothing gives zeros.
TEST(Attention, AMaskHidesKeysInEveryHead) {
  const AttentionShape shape{2, 2, 1, 2, 3, 2}, two{2, 2, 1, 2, 2, 2};
  std::vector<double> q(16), k(12), v(12);
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<double>(i) * 1.7);
  for (size_t i = 0; i < k.size(); ++i) k[i] = std::cos(static_cast<double>(i) * 2.3);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(i);
  const auto without_last = [](const std::vector<double>& x) {
    std::vector<double> y(x.begin(), x.begin() + 4);
    y.insert(y.end(), x.begin() + 6, x.begin() + 10);
    return y;
  };
  std::vector<uint8_t> mask = {1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0};
  const AttentionSteps hidden = attention(q, k, v, shape, 0.7, mask);
  const AttentionSteps gone =
      attention(q, without_last(k), without_last(v), two, 0.7, AttentionView::full);
  for (size_t i = 0; i < gone.out.size(); ++i) EXPECT_NEAR(hidden.out[i], gone.out[i], 1e-12);
  for (size_t row = 0; row < 8; ++row) EXPECT_EQ(hidden.weights[3 * row + 2], 0);
  mask.assign(12, 0);
  EXPECT_EQ(attention(q, k, v, shape, 0.7, mask).out, std::vector<double>(16, 0.0));
  mask.pop_back();
  EXPECT_THROW(attention(q, k, v, shape, 0.7, mask), Error);
}

TEST(OnlineSoftmax, TwoBlocksByHand) {
  const std::vector<double> x = {2, 1, 3, 0.5};
  const auto steps = online_softmax(x, 2);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].max, 2);
  EXPECT_NEAR(steps[0].sum, 1 + std::exp(-1), 1e-12);
  EXPECT_EQ(steps[1].max, 3);
  EXPECT_NEAR(steps[1].factor, std::exp(-1), 1e-12);
  const double wanted[] = {0.232, 0.085, 0.631, 0.052};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(std::exp(x[i] - steps[1].max) / steps[1].sum, wanted[i], 5e-4);
}

}  // namespace
}  // namespace strata
