#include "kernels/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernel_table.h"
#include "kernels/ref/rows.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;
constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 255, 257, 576};

// Deterministic values of both signs in (-range, range), none alike.
std::vector<float> values(int64_t n, uint32_t seed, float range = 3) {
  return test_values(n, seed, range);
}

// Every test runs for each level of this machine with operands that start off a vector boundary.
class Rows : public LevelTest {
 protected:
  const RowKernels& kernels() const { return *level_kernels().rows; }
};

// A copy at an address that is 4 bytes past a 64-byte boundary, with canaries around.
class Shifted {
 public:
  explicit Shifted(const std::vector<float>& v) : size_(v.size()), memory_(v.size() + 40, kCanary) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    offset_ = ((64 - address % 64) % 64) / 4 + 1;
    if (!v.empty()) std::memcpy(data(), v.data(), v.size() * sizeof(float));
  }
  explicit Shifted(int64_t n) : Shifted(std::vector<float>(static_cast<size_t>(n), 77.0f)) {}
  float* data() { return memory_.data() + offset_; }
  float operator[](int64_t i) const { return memory_[offset_ + static_cast<size_t>(i)]; }
  bool canaries_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < offset_ || i >= offset_ + size_) && memory_[i] != kCanary) return false;
    return true;
  }

 private:
  static constexpr float kCanary = -12345.0f;
  size_t size_;
  std::vector<float> memory_;
  size_t offset_ = 0;
};

TEST_P(Rows, RmsNormAgreesWithItsTwin) {
  for (const int64_t n : kSizes) {
    Shifted x(values(n, 1)), w(values(n, 2)), y(n);
    std::vector<double> ref(static_cast<size_t>(n));
    kernels().rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
    ref::rms_norm(x.data(), w.data(), static_cast<double>(1e-5f), n, ref.data());
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y[i], ref[static_cast<size_t>(i)],
                  (static_cast<double>(n) / 16 + 6) * kEps * std::abs(ref[static_cast<size_t>(i)]))
          << n << " " << i;
    EXPECT_TRUE(y.canaries_intact());
    Shifted in_place(values(n, 1));
    kernels().rms_norm(in_place.data(), w.data(), 1e-5f, n, in_place.data());
    EXPECT_EQ(std::memcmp(in_place.data(), y.data(), static_cast<size_t>(n) * 4), 0);
  }
}

TEST_P(Rows, LayerNormAgreesWithItsTwin) {
  for (const int64_t n : kSizes) {
    for (const bool with_bias : {true, false}) {
      Shifted x(values(n, 3)), w(values(n, 4)), b(values(n, 5)), y(n);
      const float* bias = with_bias ? b.data() : nullptr;
      std::vector<double> ref(static_cast<size_t>(n));
      kernels().layer_norm(x.data(), w.data(), bias, 1e-2f, n, y.data());
      ref::layer_norm(x.data(), w.data(), bias, static_cast<double>(1e-2f), n, ref.data());
      // max|x| + |mean| <= 6, sd >= sqrt(epsilon) = 0.1, |weight| and |bias| <= 3.
      double sd = 0, mean = 0;
      for (int64_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i) sd += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
      const double bound =
          (static_cast<double>(n) / 16 + 8) * kEps * (6 / std::sqrt(sd + 1e-2) * 3 + 3);
      for (int64_t i = 0; i < n; ++i)
        EXPECT_NEAR(y[i], ref[static_cast<size_t>(i)], bound) << n << " " << i;
      EXPECT_TRUE(y.canaries_intact());
    }
  }
}

TEST_P(Rows, SumsAndProductsAreExactlyRounded) {
  for (const int64_t n : kSizes) {
    Shifted a(values(n, 6)), b(values(n, 7)), y(n), z(n);
    kernels().add(a.data(), b.data(), n, y.data());
    kernels().scale(a.data(), 1.7f, n, z.data());
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y[i], a[i] + b[i]);
      EXPECT_EQ(z[i], a[i] * 1.7f);
    }
    EXPECT_TRUE(y.canaries_intact() && z.canaries_intact());
  }
}

TEST_P(Rows, RopeTurnsPairs) {
  for (const int64_t size : {1, 3, 4, 8, 9, 16, 32, 33, 128}) {
    std::vector<float> c, s, c2, s2;
    for (int64_t i = 0; i < size; ++i) {
      const double angle = 0.37 * static_cast<double>(i + 1);
      c.push_back(static_cast<float>(std::cos(angle)));
      s.push_back(static_cast<float>(std::sin(angle)));
      c2.insert(c2.end(), 2, c.back());
      s2.insert(s2.end(), {-s.back(), s.back()});
    }
    Shifted x(values(2 * size, 8)), halves(2 * size), pairs(2 * size);
    kernels().rope_halves(x.data(), c.data(), s.data(), size, halves.data());
    kernels().rope_pairs(x.data(), c2.data(), s2.data(), 2 * size, pairs.data());
    for (int64_t i = 0; i < size; ++i) {
      const auto check = [&](double a, double b, float got_a, float got_b) {
        const double co = c[static_cast<size_t>(i)], si = s[static_cast<size_t>(i)];
        EXPECT_NEAR(got_a, a * co - b * si, 3 * kEps * (std::abs(a * co) + std::abs(b * si)));
        EXPECT_NEAR(got_b, b * co + a * si, 3 * kEps * (std::abs(b * co) + std::abs(a * si)));
      };
      check(x[i], x[i + size], halves[i], halves[i + size]);
      check(x[2 * i], x[2 * i + 1], pairs[2 * i], pairs[2 * i + 1]);
    }
    EXPECT_TRUE(halves.canaries_intact() && pairs.canaries_intact());
  }
}

TEST_P(Rows, ActivationsAgreeWithTheirTwins) {
  std::vector<float> xs = values(1000, 9, 12);
  for (const float x : {0.0f, -0.0f, 1e-20f, -1e-20f, 40.0f, -40.0f, 88.0f, -86.0f, 1e4f})
    xs.push_back(x);
  const auto n = static_cast<int64_t>(xs.size());
  struct Case {
    const RowKernels::Activations& f;
    double (*ref)(double);
    double (*bound)(double x, double y);
  };
  const Case cases[] = {
      {kernels().silu, ref::silu, [](double, double y) { return 12 * kEps * std::abs(y) + 1e-37; }},
      {kernels().gelu_tanh, ref::gelu_tanh,
       [](double x, double y) {
         const double u2 = 1.596 * std::abs(x + 0.044715 * x * x * x);
         return u2 > 86 && x < 0 ? 1e-34 : (12 + 4 * u2) * kEps * std::abs(y) + 1e-37;
       }},
      {kernels().gelu_erf, ref::gelu_erf,
       [](double x, double y) { return 12 * kEps * std::abs(y) + 1e-7 * std::abs(x); }},
      {kernels().relu, ref::relu, [](double, double) { return 0.0; }},
  };
  for (const Case& c : cases) {
    Shifted x(xs), up(values(n, 10)), y(n), z(n);
    c.f.plain(x.data(), n, y.data());
    c.f.gated(x.data(), up.data(), n, z.data());
    for (int64_t i = 0; i < n; ++i) {
      const double ref = c.ref(x[i]);
      EXPECT_NEAR(y[i], ref, c.bound(x[i], ref)) << &c - cases << " at " << x[i];
      EXPECT_EQ(z[i], y[i] * up[i]);
    }
    EXPECT_TRUE(y.canaries_intact() && z.canaries_intact());
  }
}

TEST_P(Rows, NanSurvivesActivations) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float y = 0;
  for (const auto& f : {kernels().silu, kernels().gelu_tanh, kernels().gelu_erf, kernels().relu}) {
    f.plain(&nan, 1, &y);
    EXPECT_TRUE(std::isnan(y));
  }
  std::vector<float> x = values(20, 11);
  x[13] = nan;
  EXPECT_TRUE(std::isnan(kernels().sum_exp(x.data(), 0, 20)));
}

TEST_P(Rows, SoftmaxAgreesWithItsTwin) {
  for (const int64_t n : kSizes) {
    Shifted x(values(n, 12, 20)), y(n);
    std::vector<double> ref(static_cast<size_t>(n));
    kernels().softmax(x.data(), n, y.data());
    ref::softmax(x.data(), n, ref.data());
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y[i], ref[static_cast<size_t>(i)],
                  (32 + 2 * 40) * kEps * ref[static_cast<size_t>(i)] + 1e-37)
          << n << " " << i;
    EXPECT_TRUE(y.canaries_intact());
  }
  kernels().softmax(nullptr, 0, nullptr);
  EXPECT_EQ(kernels().max_value(nullptr, 0), -std::numeric_limits<float>::infinity());
}

TEST_P(Rows, SumExpOfAWholeVocabulary) {
  const std::vector<float> x = values(50'000, 13, 10);
  double ref = 0;
  for (const float v : x) ref += std::exp(static_cast<double>(v) - 10);
  EXPECT_NEAR(kernels().sum_exp(x.data(), 10, 50'000), ref, (20 + 20) * kEps * ref);
}

// One element at a time the sum is the exponential itself.
TEST_P(Rows, SumExpF64ToTheLastBits) {
  const auto exp_of = [](float x, float shift, double factor) {
    return std::exp((static_cast<double>(x) - static_cast<double>(shift)) * factor);
  };
  for (const float x : values(2'000, 14, 300)) {
    const double want = exp_of(x, 300, 1.1);
    EXPECT_NEAR(kernels().sum_exp_f64(&x, 300, 1.1, 1) / want, 1, 0x1p-47) << x;
  }
  const float none = -std::numeric_limits<float>::infinity();
  EXPECT_LT(kernels().sum_exp_f64(&none, 3, 1, 1), 1e-300);
  for (const int64_t n : kSizes) {
    const std::vector<float> x = values(n, 15, 20);
    double ref = 0;
    for (const float v : x) ref += exp_of(v, 20, 0.5);
    EXPECT_NEAR(kernels().sum_exp_f64(x.data(), 20, 0.5, n), ref, 0x1p-47 * ref) << n;
  }
  EXPECT_EQ(kernels().sum_exp_f64(nullptr, 0, 1, 0), 0);
  for (size_t at = 0; at < 37; ++at) {
    std::vector<float> broken = values(37, 15, 20);
    broken[at] = NAN;
    EXPECT_TRUE(std::isnan(kernels().sum_exp_f64(broken.data(), 20, 0.5, 37))) << at;
  }
}

// Operands that end or begin at a page that may not be touched.
TEST_P(Rows, NothingPastTheOperandsIsTouched) {
  const RowKernels& k = kernels();
  for (const int64_t n : kSizes)
    for (const Guard side : {Guard::before, Guard::after}) {
      const Guarded x(values(n, 21), side), w(values(n, 22), side), y(n, side);
      k.rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
      k.layer_norm(x.data(), w.data(), w.data(), 1e-5f, n, y.data());
      k.add(x.data(), w.data(), n, y.data());
      k.scale(x.data(), 2, n, y.data());
      for (const auto* f : {&k.silu, &k.gelu_tanh, &k.gelu_erf, &k.relu}) {
        f->plain(x.data(), n, y.data());
        f->gated(x.data(), w.data(), n, y.data());
      }
      k.softmax(x.data(), n, y.data());
      EXPECT_EQ(k.max_value(x.data(), n), *std::max_element(x.data(), x.data() + n));
      EXPECT_GT(k.sum_exp(x.data(), 3, n), 0);
      EXPECT_GT(k.sum_exp_f64(x.data(), 3, 1, n), 0);
      const Guarded head(values(2 * n, 23), side), turned(2 * n, side),
          angles(values(2 * n, 24), side);
      k.rope_halves(head.data(), x.data(), w.data(), n, turned.data());
      k.rope_pairs(head.data(), angles.data(), angles.data(), 2 * n, turned.data());
      EXPECT_TRUE(std::isfinite(turned.data()[2 * n - 1]));
    }
}

// What a row gives does not depend on where it lies.
TEST_P(Rows, AlignmentDoesNotChangeTheResult) {
  const std::vector<float> x = values(77, 14), w = values(77, 15);
  std::vector<float> plain(77);
  kernels().rms_norm(x.data(), w.data(), 1e-6f, 77, plain.data());
  Shifted shifted(x), y(77);
  kernels().rms_norm(shifted.data(), w.data(), 1e-6f, 77, y.data());
  EXPECT_EQ(std::memcmp(plain.data(), y.data(), 77 * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Levels, Rows, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
