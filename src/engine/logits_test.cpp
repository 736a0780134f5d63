#include "engine/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace strata {
namespace {

// Shares 0.4, 0.3, 0.2, 0.1 of tokens 2, 0, 3, 1.
const std::vector<float> kLogits = {std::log(0.3f), std::log(0.1f), std::log(0.4f), std::log(0.2f)};

TEST(Logits, TheSum) {
  // Squares of the shares over the best one's: 9/16, 1/16, 1, 4/16.
  EXPECT_NEAR(sum_of_exp(kLogits, kLogits[2], 0.5), 30.0 / 16, 1e-6);
  EXPECT_NEAR(sum_of_exp(kLogits, kLogits[2], 1), 2.5, 1e-6);
  // Quarters of a million tokens, and some that are no choice at all.
  std::vector<float> many(262'144 + 5, std::log(0.25f));
  many[7] = 0;
  many.back() = -std::numeric_limits<float>::infinity();
  EXPECT_NEAR(sum_of_exp(many, 0, 1), 1 + 0.25 * (262'144 + 3), 1e-2);
}

TEST(TokenLogprobs, AreOfTheUnmodifiedDistribution) {
  const TokenLogprob l = token_logprobs(kLogits, 3, 2);
  EXPECT_NEAR(l.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(l.top.size(), 2u);
  EXPECT_EQ(l.top[0].first, 2);
  EXPECT_NEAR(l.top[0].second, std::log(0.4), 1e-6);
  EXPECT_EQ(l.top[1].first, 0);
  EXPECT_TRUE(token_logprobs(kLogits, 0, 0).top.empty());
}

// Shares 1, 1, 2, 3 of 7: equal tokens by rising id, and no more than there are.
TEST(TokenLogprobs, TheBestInOrder) {
  const std::vector<float> logits = {0, std::log(2.0f), 0, std::log(3.0f)};
  const TokenLogprob l = token_logprobs(logits, 1, 20);
  ASSERT_EQ(l.top.size(), 4u);
  const TokenId order[] = {3, 1, 0, 2};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(l.top[i].first, order[i]);
  EXPECT_NEAR(l.top[3].second, std::log(1.0 / 7), 1e-6);
  EXPECT_EQ(token_logprobs(logits, 1, 3).top.back().first, 0);
}

TEST(BrokenLogits, AreFound) {
  std::vector<float> logits = {0, 1, -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(find_broken_logit(logits), -1);
  logits[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_broken_logit(logits), 1);
  logits[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(find_broken_logit(logits), 1);
  // At every place of vectors and of the rest.
  for (size_t at = 0; at < 40; ++at) {
    std::vector<float> many(40, 1);
    many[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(find_broken_logit(many), static_cast<int64_t>(at));
  }
}

}  // namespace
}  // namespace strata
