#include "engine/key_mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace strata {
namespace {

// Two heads of 6; two pairs (i, i + 2) turn, the last two elements do not.
constexpr int kHeads = 2, kSize = 6, kPairs = 2;

AttentionConfig test_config() {
  AttentionConfig config;
  config.kv_heads = kHeads;
  config.head_size = kSize;
  return config;
}

// Element d of a head's key before rope, at a position: its mean over positions 1..4 is d + 0.25.
double plain_key(int head, int d, int position) {
  constexpr double kAround[] = {1000, -2, 1, 3, -1};  // position 0 is not to count
  return head * 10 + d + kAround[position];
}

TEST(KeyMean, IsOfKeysBeforeRopeWithoutFirstPositions) {
  Rope rope;
  rope.layout = Rope::Layout::halves;
  rope.inverse_frequency = {1.0, 0.3};
  rope.attention_factor = 1.25;
  RopeTable table(rope, 16);
  table.fill_to(15);
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
  std::vector<float> keys;
  for (const int t : positions)
    for (int head = 0; head < kHeads; ++head) {
      double key[kSize];
      for (int d = 0; d < kSize; ++d) key[d] = plain_key(head, d, t);
      for (int i = 0; i < kPairs; ++i) {
        const double angle = t * rope.inverse_frequency[static_cast<size_t>(i)];
        const double a = key[i], b = key[i + kPairs];
        key[i] = 1.25 * (a * std::cos(angle) - b * std::sin(angle));
        key[i + kPairs] = 1.25 * (b * std::cos(angle) + a * std::sin(angle));
      }
      for (const double x : key) keys.push_back(static_cast<float>(x));
    }
  const AttentionConfig config = test_config();
  KeyMean mean(config, &table);
  EXPECT_EQ(mean.mean(), std::vector<float>(kHeads * kSize)) << "before anything was added";
  Tensor all;
  all.data = keys.data();
  all.rows = 5;
  all.columns = all.stride = kHeads * kSize;
  mean.add(all, positions);
  const std::vector<float> got = mean.mean();
  for (int head = 0; head < kHeads; ++head)
    for (int d = 0; d < kSize; ++d)
      EXPECT_NEAR(got[static_cast<size_t>(head * kSize + d)], head * 10 + d + 0.25, 1e-5);
}

}  // namespace
}  // namespace strata
