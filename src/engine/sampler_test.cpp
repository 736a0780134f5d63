#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"

namespace strata {
namespace {

// Shares 0.4, 0.3, 0.2, 0.1 of tokens 2, 0, 3, 1.
const std::vector<float> kLogits = {std::log(0.3f), std::log(0.1f), std::log(0.4f), std::log(0.2f)};

TokenId draw(const SamplingParams& params, double uniform,
             const std::vector<float>& logits = kLogits) {
  return Sampler(params).draw(logits, uniform);
}

TEST(Sampler, InverseCdfInOrderOfFallingLogit) {
  const SamplingParams plain;
  EXPECT_EQ(draw(plain, 0.0), 2);
  EXPECT_EQ(draw(plain, 0.39), 2);
  EXPECT_EQ(draw(plain, 0.41), 0);
  EXPECT_EQ(draw(plain, 0.69), 0);
  EXPECT_EQ(draw(plain, 0.71), 3);
  EXPECT_EQ(draw(plain, 0.89), 3);
  EXPECT_EQ(draw(plain, 0.91), 1);
  EXPECT_EQ(draw(plain, std::nextafter(1.0, 0.0)), 1);
}

TEST(Sampler, EqualLogitsGoByRisingId) {
  const std::vector<float> flat(4, 1.0f);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(draw({}, 0.25 * i + 0.1, flat), i);
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(draw(greedy, 0.9, flat), 0);
}

TEST(Sampler, TemperatureSharpensAndZeroIsGreedy) {
  SamplingParams p;
  p.temperature = 0.5;  // squares the shares: 16, 9, 4, 1 of 30
  EXPECT_EQ(draw(p, 15.9 / 30), 2);
  EXPECT_EQ(draw(p, 16.1 / 30), 0);
  EXPECT_EQ(draw(p, 24.9 / 30), 0);
  EXPECT_EQ(draw(p, 25.1 / 30), 3);
  p.temperature = 0;
  EXPECT_EQ(draw(p, 0.999), 2);
  p.temperature = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(draw(p, 0.999), 2);
}

TEST(Sampler, TopKTopPMinP) {
  SamplingParams k;
  k.top_k = 2;  // 4 and 3 of 7
  EXPECT_EQ(draw(k, 3.9 / 7), 2);
  EXPECT_EQ(draw(k, 4.1 / 7), 0);
  EXPECT_EQ(draw(k, 0.9999), 0);
  SamplingParams p;
  p.top_p = 0.65;  // 0.4 is short of it, 0.4 + 0.3 is not
  EXPECT_EQ(draw(p, 0.9999), 0);
  EXPECT_EQ(draw(p, 4.1 / 7), 0);
  p.top_p = 0;  // always at least one token
  EXPECT_EQ(draw(p, 0.9999), 2);
  SamplingParams m;
  m.min_p = 0.45;  // 0.18 and more: three tokens, 4, 3 and 2 of 9
  EXPECT_EQ(draw(m, 6.9 / 9), 0);
  EXPECT_EQ(draw(m, 0.9999), 3);
}

// Entropy of the shares is 1.2799 nats; the surprises 0.916, 1.204, 1.609, 2.303 are 0.364, 0.076,
// 0.330, 1.023 away from it: token 0 is the most typical, then 3, then 2.
TEST(Sampler, TypicalKeepsWhatIsClosestToTheEntropy) {
  SamplingParams p;
  p.typical_p = 0.25;
  EXPECT_EQ(draw(p, 0.01), 0);
  EXPECT_EQ(draw(p, 0.99), 0);
  p.typical_p = 0.45;  // 0.3 + 0.2
  EXPECT_EQ(draw(p, 0.59), 0);
  EXPECT_EQ(draw(p, 0.61), 3);
}

TEST(Sampler, PenaltiesCountGeneratedTokens) {
  SamplingParams p;
  p.temperature = 0;
  p.frequency_penalty = 0.2;
  Sampler s(p);
  const std::vector<float> logits = {1.0f, 0.7f, 0.0f};
  EXPECT_EQ(s.draw(logits, 0), 0);
  s.record(0);
  EXPECT_EQ(s.draw(logits, 0), 0);  // 0.8 against 0.7
  s.record(0);
  EXPECT_EQ(s.draw(logits, 0), 1);  // 0.6 against 0.7

  SamplingParams presence;
  presence.temperature = 0;
  presence.presence_penalty = 0.4;
  Sampler t(presence);
  t.record(0);
  t.record(0);
  EXPECT_EQ(t.draw(logits, 0), 1);  // 0.6, once only

  SamplingParams repetition;
  repetition.temperature = 0;
  repetition.repetition_penalty = 2;
  Sampler u(repetition);
  u.record(0);
  EXPECT_EQ(u.draw(logits, 0), 1);                                   // 0.5 against 0.7
  EXPECT_EQ(u.draw(std::vector<float>{-0.4f, -0.7f, -3.0f}, 0), 1);  // -0.8 against -0.7
}

TEST(Sampler, LogitBias) {
  SamplingParams p;
  p.temperature = 0;
  p.logit_bias = {{1, 100}};
  EXPECT_EQ(draw(p, 0), 1);
  p.logit_bias = {{2, -100}};
  EXPECT_EQ(draw(p, 0), 0);
}

// Far from the best, too, where tokens are looked at only when a draw comes there.
TEST(Sampler, DrawsAmongTokensOfLittleWeight) {
  std::vector<float> logits(1000, -10.0f);
  logits[500] = 0;
  logits[3] = -30;
  const double rest = 998 * std::exp(-10.0), total = 1 + rest + std::exp(-30.0);
  EXPECT_EQ(draw({}, 0.9999 / total, logits), 500);
  EXPECT_EQ(draw({}, (1 + 1.5 * std::exp(-10.0)) / total, logits), 1);
  EXPECT_EQ(draw({}, (1 + 997.5 * std::exp(-10.0)) / total, logits), 999);
  EXPECT_EQ(draw({}, 1 - 0.5 * std::exp(-30.0) / total, logits), 3);
  SamplingParams k;
  k.top_k = 999;
  EXPECT_EQ(draw(k, std::nextafter(1.0, 0.0), logits), 999);
}

// Only the front of a large vocabulary is sorted; the answer must be that of sorting all of it.
TEST(Sampler, LargeVocabularyEqualsFullSort) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(4 * sampling_uniform(99, static_cast<uint32_t>(i), 0, 0));
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  long double total = 0;
  for (float l : logits) total += std::exp(static_cast<long double>(l));
  for (double u : {0.0, 0.001, 0.2, 0.5, 0.9, 0.999}) {
    long double sum = 0;
    TokenId want = order.back();
    for (TokenId id : order) {
      sum += std::exp(static_cast<long double>(logits[static_cast<size_t>(id)]));
      if (sum > u * total) {
        want = id;
        break;
      }
    }
    EXPECT_EQ(draw({}, u, logits), want) << u;
    SamplingParams p;
    p.top_p = 0.999999;
    EXPECT_EQ(draw(p, u, logits), want) << u;
  }
}

TEST(Sampler, DrawsFollowTheShares) {
  std::vector<int> counts(4);
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(draw({}, sampling_uniform(static_cast<uint64_t>(i), 0, 0, 0)))];
  const double shares[] = {0.3, 0.1, 0.4, 0.2};
  double chi_square = 0;
  for (size_t i = 0; i < 4; ++i) {
    const double expected = shares[i] * kDraws;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 16.27);  // three degrees of freedom, p = 0.001
}

}  // namespace
}  // namespace strata
