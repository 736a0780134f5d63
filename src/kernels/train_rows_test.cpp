#include "kernels/train_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/philox.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernel_table.h"
#include "kernels/ref/rows.h"
#include "kernels/ref/train_rows.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;
constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 255, 257, 576};
constexpr Guard kSides[] = {Guard::before, Guard::after};

class TrainRows : public LevelTest {
 protected:
  const TrainRowKernels& kernels() const { return *level_kernels().train_rows; }
};

std::vector<double> doubles(int64_t n) { return std::vector<double>(static_cast<size_t>(n)); }

double largest(const Guarded& v) {
  double m = 0;
  for (const float x : v.values()) m = std::max(m, std::abs(double{x}));
  return m;
}

TEST_P(TrainRows, PhiloxBlocksAreThoseOfTheGenerator) {
  constexpr uint32_t kUnwritten = 0xabcdabcd;
  const PhiloxBlocks blocks{{0x12345678, 0x9abcdef0}, 0xfffffffa, {7, 0xf0000001, 0xffffffff}};
  for (int64_t count = 0; count <= 40; ++count) {
    std::vector<uint32_t> words(static_cast<size_t>(4 * count + 1), kUnwritten);
    kernels().philox(blocks, count, words.data());
    EXPECT_EQ(words.back(), kUnwritten);
    for (int64_t i = 0; i < count; ++i) {
      const auto want = philox4x32(
          {blocks.first + static_cast<uint32_t>(i), blocks.rest[0], blocks.rest[1], blocks.rest[2]},
          {blocks.key[0], blocks.key[1]});
      EXPECT_TRUE(std::equal(want.begin(), want.end(), &words[static_cast<size_t>(4 * i)]))
          << "block " << i << " of " << count;
    }
  }
}

TEST_P(TrainRows, NormGradientsAgreeWithTheirTwins) {
  for (const int64_t n : kSizes)
    for (const Guard side : kSides)
      for (const bool layer : {false, true}) {
        const Guarded x(test_values(n, 1, 3), side), w(test_values(n, 2, 3), side),
            d_y(test_values(n, 3, 2), side), d_w(test_values(n, 4), side),
            d_b(test_values(n, 5), side), d_x(n, side);
        const std::vector<float> w_before = d_w.values(), b_before = d_b.values();
        auto rx = doubles(n), rw = doubles(n), rb = doubles(n);
        const float epsilon = 0.01f;
        if (layer) {
          kernels().layer_norm_backward(x.data(), w.data(), epsilon, d_y.data(), n, d_x.data(),
                                        d_w.data(), d_b.data());
          ref::layer_norm_backward(x.data(), w.data(), double{epsilon}, d_y.data(), n, rx.data(),
                                   rw.data(), rb.data());
        } else {
          kernels().rms_norm_backward(x.data(), w.data(), epsilon, d_y.data(), n, d_x.data(),
                                      d_w.data());
          ref::rms_norm_backward(x.data(), w.data(), double{epsilon}, d_y.data(), n, rx.data(),
                                 rw.data());
        }
        // r <= 1 / sqrt(epsilon) = 10 (rows of one: h and the variance are 0), |x - mean| r <=
        // sqrt(n): all terms of d_x together stay below r (g + g + sqrt(n) sqrt(n) mean |g|).
        double square = 0, mean = 0;
        for (const float v : x.values()) mean += layer ? double{v} / static_cast<double>(n) : 0;
        for (const float v : x.values())
          square += (double{v} - mean) * (double{v} - mean) / static_cast<double>(n);
        const double r = 1 / std::sqrt(square + 0.01), g = largest(d_y) * largest(w);
        const double h = (largest(x) + std::abs(mean)) * r;
        const double relative = (static_cast<double>(n) / 8 + 24) * kEps;
        for (int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<size_t>(i);
          ASSERT_NEAR(d_x.data()[i], rx[at], relative * r * g * (2 + h * h)) << n << " " << i;
          ASSERT_NEAR(d_w.data()[i], double{w_before[at]} + rw[at], relative * (1 + 2 * h))
              << n << " " << i;
          ASSERT_NEAR(d_b.data()[i], double{b_before[at]} + (layer ? rb[at] : 0.0), kEps * 4);
        }
        // In place, and without a bias.
        const Guarded same(d_y.values(), side), d_w2(w_before, side);
        if (layer)
          kernels().layer_norm_backward(x.data(), w.data(), epsilon, same.data(), n, same.data(),
                                        d_w2.data(), nullptr);
        else
          kernels().rms_norm_backward(x.data(), w.data(), epsilon, same.data(), n, same.data(),
                                      d_w2.data());
        ASSERT_EQ(same.values(), d_x.values());
        ASSERT_EQ(d_w2.values(), d_w.values());
      }
}

TEST_P(TrainRows, ActivationGradientsAgreeWithTheirTwins) {
  std::vector<float> xs = test_values(1001, 9, 12);
  for (const float x :
       {0.0f, -0.0f, 1e-20f, -1e-20f, 40.0f, -40.0f, 88.0f, -86.0f, 1e4f, -1e4f, 1e30f, -1e30f})
    xs.push_back(x);
  const auto n = static_cast<int64_t>(xs.size());
  struct Form {
    const TrainRowKernels::Activations& kernel;
    double (*value)(double);
    double (*slope)(double);
    double extra;
  };
  const Form forms[] = {{kernels().silu, ref::silu, ref::silu_slope, 0},
                        {kernels().gelu_tanh, ref::gelu_tanh, ref::gelu_tanh_slope, 0},
                        {kernels().gelu_erf, ref::gelu_erf, ref::gelu_erf_slope, 3e-7},
                        {kernels().relu, ref::relu, ref::relu_slope, 0}};
  for (const Form& f : forms)
    for (const Guard side : kSides) {
      const Guarded x(xs, side), up(test_values(n, 10), side), d_y(test_values(n, 11), side);
      const Guarded d_x(n, side), d_gate(n, side), d_up(n, side);
      f.kernel.plain(x.data(), d_y.data(), n, d_x.data());
      f.kernel.gated(x.data(), up.data(), d_y.data(), n, d_gate.data(), d_up.data());
      for (int64_t i = 0; i < n; ++i) {
        const double v = xs[static_cast<size_t>(i)], dy = d_y.data()[i], u = up.data()[i];
        // Beyond 30 the slopes are 0 and 1, and the exponential has no say.
        const double size = 1 + std::min(std::abs(v), 30.0);
        const double bound = std::abs(dy) * size * (f.extra + 24 * kEps * size) + 1e-30;
        ASSERT_NEAR(d_x.data()[i], dy * f.slope(v), bound) << &f - forms << " at " << v;
        ASSERT_NEAR(d_gate.data()[i], dy * u * f.slope(v), bound) << &f - forms << " at " << v;
        ASSERT_NEAR(d_up.data()[i], dy * f.value(v),
                    std::abs(dy) * ((24 + 8 * size) * kEps + f.extra) * (1 + std::abs(v)) + 1e-30)
            << &f - forms << " at " << v;
      }
    }
}

TEST_P(TrainRows, RopeBackwardTurnsBack) {
  const RowKernels& rows = *level_kernels().rows;
  for (const int64_t size : {1, 3, 4, 8, 9, 33})
    for (const Guard side : kSides) {
      std::vector<float> c, s, c2, s2;
      for (int64_t i = 0; i < size; ++i) {
        const double angle = 0.37 * static_cast<double>(i + 1);
        c.push_back(static_cast<float>(std::cos(angle)));
        s.push_back(static_cast<float>(std::sin(angle)));
        c2.insert(c2.end(), 2, c.back());
        s2.insert(s2.end(), {-s.back(), s.back()});
      }
      const Guarded cos(c, side), sin(s, side), cos2(c2, side), sin2(s2, side);
      const Guarded x(test_values(2 * size, 8), side), y(2 * size, side), back(2 * size, side);
      rows.rope_halves(x.data(), cos.data(), sin.data(), size, y.data());
      kernels().rope_halves_backward(y.data(), cos.data(), sin.data(), size, back.data());
      for (int64_t i = 0; i < 2 * size; ++i) EXPECT_NEAR(back.data()[i], x.data()[i], 16 * kEps);
      rows.rope_pairs(x.data(), cos2.data(), sin2.data(), 2 * size, y.data());
      kernels().rope_pairs_backward(y.data(), cos2.data(), sin2.data(), 2 * size, back.data());
      for (int64_t i = 0; i < 2 * size; ++i) EXPECT_NEAR(back.data()[i], x.data()[i], 16 * kEps);
    }
}

TEST_P(TrainRows, SoftmaxAndCrossEntropyAgreeWithTheirTwins) {
  for (const int64_t n : kSizes)
    for (const Guard side : kSides)
      for (const float smoothing : {0.0f, 0.1f}) {
        const std::vector<float> z = test_values(n, 12, 10);
        std::vector<double> p = doubles(n), want = doubles(n);
        ref::softmax(z.data(), n, p.data());
        std::vector<float> y;
        for (const double v : p) y.push_back(static_cast<float>(v));
        const Guarded soft(y, side), d_y(test_values(n, 13), side), d_x(n, side);
        kernels().softmax_backward(soft.data(), d_y.data(), n, d_x.data());
        ref::softmax_backward(soft.data(), d_y.data(), n, want.data());
        for (int64_t i = 0; i < n; ++i)
          ASSERT_NEAR(d_x.data()[i], want[static_cast<size_t>(i)],
                      (static_cast<double>(n) / 16 + 8) * 2 * kEps * double{soft.data()[i]});

        const int64_t target = n / 2;
        const Guarded logits(z, side);
        const double loss = kernels().cross_entropy(logits.data(), n, target, smoothing, 0.25f);
        const double wanted =
            ref::cross_entropy(z.data(), n, target, double{smoothing}, want.data());
        ASSERT_NEAR(loss, wanted, (32 + 2 * 20) * kEps) << n;
        for (int64_t i = 0; i < n; ++i) {
          const double size = p[static_cast<size_t>(i)] +
                              double{smoothing} / static_cast<double>(n) + (i == target ? 1 : 0);
          ASSERT_NEAR(logits.data()[i], 0.25 * want[static_cast<size_t>(i)],
                      (40 + 2 * 20) * kEps * 0.25 * size)
              << n << " " << i;
        }
      }
}

TEST_P(TrainRows, CrossEntropyOfExtremes) {
  // By hand: one logit far above the rest costs nothing when hit, its height when missed.
  std::vector<float> z(100, -1000.0f);
  z[3] = 1000.0f;
  std::vector<float> hit = z, miss = z;
  EXPECT_EQ(kernels().cross_entropy(hit.data(), 100, 3, 0, 1), 0.0);
  for (const float g : hit) EXPECT_EQ(g, 0.0f);
  EXPECT_EQ(kernels().cross_entropy(miss.data(), 100, 5, 0, 1), 2000.0);
  EXPECT_EQ(miss[3], 1.0f);
  EXPECT_EQ(miss[5], -1.0f);
  z[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(kernels().cross_entropy(z.data(), 100, 3, 0, 1)));
}

TEST_P(TrainRows, LossesAgainstAnotherRowAgreeWithTheirTwins) {
  constexpr float kFactor = 0.25f;
  for (const int64_t n : kSizes)
    for (const Guard side : kSides) {
      if (n == 0) continue;
      const Guarded x(test_values(n, 30, 5), side), t(test_values(n, 31, 4), side), d_x(n, side);
      std::vector<double> want = doubles(n);
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) norm += double{x.data()[i]} * double{x.data()[i]};
      norm = std::sqrt(norm);

      double loss = kernels().squared_error(x.data(), t.data(), n, kFactor, d_x.data());
      double wanted = ref::squared_error(x.data(), t.data(), n, want.data());
      ASSERT_NEAR(loss, wanted, 16 * kEps * wanted) << n;
      for (int64_t i = 0; i < n; ++i) {
        const double g = kFactor * want[static_cast<size_t>(i)];
        ASSERT_NEAR(d_x.data()[i], g, 4 * kEps * std::abs(g)) << n << " " << i;
      }
      EXPECT_EQ(kernels().squared_error(x.data(), t.data(), n, kFactor, nullptr), loss);

      loss = kernels().cosine_distance(x.data(), t.data(), n, kFactor, d_x.data());
      wanted = ref::cosine_distance(x.data(), t.data(), n, want.data());
      ASSERT_NEAR(loss, wanted, 40 * kEps) << n;
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(d_x.data()[i], kFactor * want[static_cast<size_t>(i)],
                    40 * kEps * kFactor / norm)
            << n << " " << i;

      for (const float s : {1.0f, 0.5f}) {
        loss = kernels().kl_divergence(x.data(), t.data(), n, s, kFactor, d_x.data());
        wanted = ref::kl_divergence(x.data(), t.data(), n, double{s}, want.data());
        const double size = double{s} * 5;
        ASSERT_NEAR(loss, wanted, (48 + 8 * size) * (1 + 4 * size) * kEps) << n;
        EXPECT_EQ(kernels().kl_divergence(x.data(), t.data(), n, s, kFactor, nullptr), loss);
        std::vector<double> q = doubles(n), p = doubles(n);
        std::vector<float> xs, ts;
        for (int64_t i = 0; i < n; ++i) {
          xs.push_back(s * x.data()[i]);
          ts.push_back(s * t.data()[i]);
        }
        ref::softmax(xs.data(), n, q.data());
        ref::softmax(ts.data(), n, p.data());
        for (size_t i = 0; i < q.size(); ++i)
          ASSERT_NEAR(d_x.data()[i], kFactor * want[i],
                      (40 + 8 * size) * kEps * double{kFactor} * double{s} * (q[i] + p[i]))
              << n << " " << i;
        // Over its operand.
        const Guarded over(x.values(), side);
        kernels().kl_divergence(over.data(), t.data(), n, s, kFactor, over.data());
        EXPECT_EQ(over.values(), d_x.values());
      }
    }
}

TEST_P(TrainRows, LossesOfEqualRowsAndOfZeros) {
  std::vector<float> x = test_values(100, 32, 3), d(100, 1.0f);
  const std::vector<float> nothing(100, 0.0f);
  EXPECT_EQ(kernels().squared_error(x.data(), x.data(), 100, 1, d.data()), 0.0);
  EXPECT_EQ(d, nothing);
  EXPECT_EQ(kernels().kl_divergence(x.data(), x.data(), 100, 1, 1, d.data()), 0.0);
  EXPECT_NEAR(kernels().cosine_distance(x.data(), x.data(), 100, 1, d.data()), 0.0, 40 * kEps);
  EXPECT_EQ(kernels().cosine_distance(nothing.data(), x.data(), 100, 1, d.data()), 1.0);
  EXPECT_EQ(d, nothing);
  x[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(kernels().squared_error(x.data(), nothing.data(), 100, 1, d.data())));
  EXPECT_TRUE(std::isnan(kernels().kl_divergence(x.data(), nothing.data(), 100, 1, 1, d.data())));
  EXPECT_TRUE(std::isnan(kernels().cosine_distance(x.data(), d.data(), 100, 1, d.data())));
}

TEST_P(TrainRows, SumsAndUpdates) {
  for (const int64_t n : kSizes)
    for (const Guard side : kSides) {
      const Guarded x(test_values(n, 20), side), y(test_values(n, 21), side);
      const std::vector<float> before = y.values();
      kernels().accumulate(x.data(), n, y.data());
      double square = 0;
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(y.data()[i], before[static_cast<size_t>(i)] + x.data()[i]);
        square += double{x.data()[i]} * double{x.data()[i]};
      }
      EXPECT_NEAR(kernels().sum_of_squares(x.data(), n), square, 20 * kEps * square);
      const Guarded z(before, side);
      kernels().add_scaled(x.data(), 0.3f, n, z.data());
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(z.data()[i],
                    double{before[static_cast<size_t>(i)]} + double{0.3f} * double{x.data()[i]},
                    3 * kEps);
    }
  const std::vector<float> huge(1000, 1e19f);
  EXPECT_TRUE(std::isinf(kernels().sum_of_squares(huge.data(), 1000)) ||
              std::abs(kernels().sum_of_squares(huge.data(), 1000) - 1e41) < 1e36);
}

TEST_P(TrainRows, TopKAgreesWithSorting) {
  for (const int64_t n : {1, 5, 8, 17, 1000, 262'144})
    for (const int32_t k : {1, 2, 7, 50, 1000}) {
      if (k > n) continue;
      std::vector<float> v = test_values(n, 30, 5);
      // Equals in plenty, and what no number is.
      for (float& x : v) x = std::round(x * 1000) / 1000;
      if (n > 100) v[77] = std::numeric_limits<float>::quiet_NaN();
      if (n > 100) v[90] = std::numeric_limits<float>::infinity();
      const Guarded x(v, Guard::after);
      std::vector<int32_t> order(static_cast<size_t>(n)), index(static_cast<size_t>(k));
      std::vector<float> heap(static_cast<size_t>(k));
      std::iota(order.begin(), order.end(), 0);
      const auto value = [&](int32_t i) {
        const float y = v[static_cast<size_t>(i)];
        return std::isnan(y) ? -INFINITY : y;
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return value(a) > value(b); });
      order.resize(static_cast<size_t>(k));
      kernels().top_k(x.data(), n, k, index.data(), heap.data());
      EXPECT_EQ(index, order) << n << " " << k;
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, TrainRows, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
