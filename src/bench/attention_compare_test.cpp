// Standard attention against PyTorch's (tests/golden/train_ops, of a window and of grouped heads,
// is flash's oracle; here the hand-written one of attention_weights.h), and what a comparison says.
#include "bench/attention_compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/cpu.h"
#include "base/error.h"
#include "bench/attention_weights.h"
#include "bench/peak_memory.h"
#include "kernels/kernel_table.h"
#include "model/test_models.h"
#include "support/isa_level_test.h"
#include "support/shadow_memory.h"

namespace strata {
namespace {

struct Matrix {
  Matrix(int64_t r, int64_t c, uint32_t seed)
      : rows(r), columns(c), data(test_values(r * c, seed)) {}
  Tensor view() { return {DType::f32, rows, columns, columns, data.data(), -1}; }
  int64_t rows, columns;
  std::vector<float> data;
};

class Comparison : public ::testing::Test {
 protected:
  ThreadPool pool_{2};
  OpContext context_{&kernel_table(isa_level()), &pool_};
};

// [T, H Dh] to [H, T, Dh].
std::vector<double> by_head(const Matrix& m, int heads) {
  const int64_t size = m.columns / heads;
  std::vector<double> out;
  for (int h = 0; h < heads; ++h)
    for (int64_t r = 0; r < m.rows; ++r)
      for (int64_t d = 0; d < size; ++d)
        out.push_back(double{m.data[static_cast<size_t>(r * m.columns + h * size + d)]});
  return out;
}

TEST_F(Comparison, StandardForwardIsTheDefinitionInF64) {
  constexpr int64_t T = 37;
  Matrix q(T, 4 * 16, 1), k(T, 2 * 16, 2), v(T, 2 * 16, 3), y(T, 4 * 16, 4);
  StandardAttention attention({4, 2, 16, T}, context_);
  attention.forward(q.view(), k.view(), v.view(), 0.25f, y.view());
  const AttentionSteps wanted = strata::attention(by_head(q, 4), by_head(k, 2), by_head(v, 2),
                                                  {1, 4, 2, T, T, 16}, 0.25, AttentionView::causal);
  const std::vector<double> got = by_head(y, 4);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted.out[i], 2e-6) << i;
}

// Central differences in f64 of sum(y d_y), moved along one element of each operand at a time.
TEST_F(Comparison, StandardBackwardIsTheSlopeOfForward) {
  constexpr int64_t T = 9;
  Matrix q(T, 4 * 8, 1), k(T, 2 * 8, 2), v(T, 2 * 8, 3), y(T, 4 * 8, 4), d_y(T, 4 * 8, 5);
  Matrix d_q(T, 4 * 8, 6), d_k(T, 2 * 8, 7), d_v(T, 2 * 8, 8);
  StandardAttention attention({4, 2, 8, T}, context_);
  attention.forward(q.view(), k.view(), v.view(), 0.5f, y.view());
  attention.backward(q.view(), k.view(), v.view(), 0.5f, d_y.view(), d_q.view(), d_k.view(),
                     d_v.view());
  std::vector<double> operands[3] = {by_head(q, 4), by_head(k, 2), by_head(v, 2)};
  const std::vector<double> weight = by_head(d_y, 4);
  const auto value = [&] {
    const AttentionSteps s = strata::attention(operands[0], operands[1], operands[2],
                                               {1, 4, 2, T, T, 8}, 0.5, AttentionView::causal);
    double sum = 0;
    for (size_t i = 0; i < weight.size(); ++i) sum += weight[i] * s.out[i];
    return sum;
  };
  const std::vector<double> got[3] = {by_head(d_q, 4), by_head(d_k, 2), by_head(d_v, 2)};
  for (size_t which = 0; which < 3; ++which)
    for (size_t i = 0; i < operands[which].size(); i += 5) {
      constexpr double kStep = 1e-5;
      double& x = operands[which][i];
      x += kStep;
      const double high = value();
      x -= 2 * kStep;
      const double low = value();
      x += kStep;
      ASSERT_NEAR(got[which][i], (high - low) / (2 * kStep), 5e-6) << which << " " << i;
    }
}

TEST_F(Comparison, TheMethodsAgreeAndTheLimitDecidesWhatIsRun) {
  AttentionComparison c;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_size = 32;
  c.lengths = {64, 256, 512, 1024};
  // Standard: 5 (weights of 4 heads, gradients of one) T^2 floats, 6 T (4 + 2) 32 of operands and
  // results. By hand for T = 256: 1.3 + 1.2 MB; 512: 5.2 + 2.4. The first KV head in parts fits
  // always.
  c.memory_limit = 6'000'000;
  const auto result = compare_attention(c, context_, 1);
  ASSERT_EQ(result.runs.size(), 8u);
  const bool standard_fits[] = {true, true, false, false};
  const int64_t compared[] = {4, 4, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    const AttentionRun &flash = result.runs[2 * i], &standard = result.runs[2 * i + 1];
    EXPECT_EQ(flash.tokens, c.lengths[i]);
    EXPECT_TRUE(flash.fits);
    EXPECT_EQ(standard.fits, standard_fits[i]) << c.lengths[i];
    EXPECT_EQ(flash.compared_heads, compared[i]);
    EXPECT_LT(flash.difference, 1e-5) << c.lengths[i];
    EXPECT_GT(flash.difference, 0) << c.lengths[i];
    EXPECT_EQ(flash.forward_seconds.size(), 1u);
    EXPECT_EQ(standard.backward_seconds.size(), standard_fits[i] ? 1u : 0u);
  }
  // 4 T 192 floats of operands and 5 T^2 floats fit into 6 MB up to T = 476 (by the formula for
  // quadratic equations).
  EXPECT_EQ(result.largest_tokens(AttentionMethod::standard), 476);
  const std::vector<Measurement> all = attention_measurements(result);
  ASSERT_EQ(all.size(), 2u * (4 + 2));
  EXPECT_EQ(all[0].what, "attention_forward");
  EXPECT_EQ(all[0].params.at("method"), "flash");
  EXPECT_EQ(all[2].params.at("largest_tokens"), 476);
  // 4 Dh of each of 64 * 65 / 2 pairs and 4 heads.
  EXPECT_NEAR(all[0].units, 4.0 * 32 * 4 * 2080 * 1e-9, 1e-15);
  EXPECT_NEAR(all[1].units / all[0].units, 2.5, 1e-12);
  const testing::TemporaryFolder folder;
  write_attention_charts(result, folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "memory_profile.png"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "speedup_chart.png"));
}

TEST_F(Comparison, HeadsThatDoNotFitAreRefused) {
  AttentionComparison c;
  c.heads = 3;
  c.kv_heads = 2;
  EXPECT_THROW(compare_attention(c, context_, 1), Error);
}

TEST(PeakMemory, SeesWhatIsTakenAndGivenBack) {
  const PeakMemory peak;
  ASSERT_GE(peak.bytes(), 0);
  {
    const std::vector<char> large(64 << 20, 1);
    EXPECT_EQ(std::count(large.begin(), large.end(), 1), 64 << 20);
  }
  EXPECT_GT(peak.bytes(), 60 << 20);
  EXPECT_LT(peak.bytes(), testing::kHeldPerByte * (80 << 20));
  const PeakMemory later;
  EXPECT_LT(later.bytes(), testing::kHeldPerByte * (20 << 20));
}

}  // namespace
}  // namespace strata
