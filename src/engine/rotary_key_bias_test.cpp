#include "engine/rotary_key_bias.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention.h"

namespace strata {
namespace {

constexpr int kHeads = 2, kSize = 8, kPairs = 3;  // the last two elements do not turn

Rope test_rope(Rope::Layout layout) {
  Rope rope;
  rope.layout = layout;
  rope.inverse_frequency = {1.0, 0.3, 0.01};
  rope.attention_factor = 1.2;
  return rope;
}

// The definition in f64: R_t x with the factor, or R_-t x without.
std::vector<double> turned(const Rope& rope, double t, const float* x, bool back) {
  std::vector<double> y(x, x + kSize);
  for (int p = 0; p < kPairs; ++p) {
    const bool halves = rope.layout == Rope::Layout::halves;
    const int i = halves ? p : 2 * p, j = halves ? p + kPairs : 2 * p + 1;
    const double angle = (back ? -t : t) * rope.inverse_frequency[static_cast<size_t>(p)];
    const double factor = back ? 1 : rope.attention_factor;
    const double a = static_cast<double>(x[i]), b = static_cast<double>(x[j]);
    y[static_cast<size_t>(i)] = factor * (a * std::cos(angle) - b * std::sin(angle));
    y[static_cast<size_t>(j)] = factor * (b * std::cos(angle) + a * std::sin(angle));
  }
  return y;
}

class KeyBiases : public testing::TestWithParam<Rope::Layout> {};

TEST_P(KeyBiases, AreTurnedAsTheKeysAre) {
  const Rope rope = test_rope(GetParam());
  RopeTable table(rope, 500);
  table.fill_to(400);
  std::vector<float> bias;
  for (int i = 0; i < kHeads * kSize; ++i) bias.push_back(1.5f * static_cast<float>(i) - 7);
  std::vector<float> of_first;
  for (int i = 0; i < kHeads * kSize; ++i) of_first.push_back(40 - static_cast<float>(i * i % 11));
  AttentionConfig config;
  config.kv_heads = kHeads;
  config.head_size = kSize;
  config.rope = &rope;
  const RotaryKeyBias same(bias.data(), nullptr, config, &table),
      apart(bias.data(), of_first.data(), config, &table);
  const float q[kSize] = {1, -2, 3, 0.5f, -0.25f, 4, 2, -1};
  for (const RotaryKeyBias* const key_bias : {&same, &apart})
    for (int head = 0; head < kHeads; ++head) {
      for (const int t : {0, 1, 15, 16, 63, 64, 200, 400}) {
        const float* b = (key_bias == &apart && t == 0 ? of_first : bias).data() + head * kSize;
        const std::vector<double> want = turned(rope, t, b, false);
        float key[kSize] = {};
        key_bias->remove(t, head, key);
        const int first = t / kChunkTokens * kChunkTokens, slot = t % kChunkTokens;
        float back[kSize];
        key_bias->turn_back(first, q, back);
        const std::vector<double> want_back = turned(rope, first, q, true);
        double score = 0, want_score = 0;
        for (int d = 0; d < kSize; ++d) {
          const auto i = static_cast<size_t>(d);
          EXPECT_NEAR(key[d], -want[i], 1e-5) << "t " << t << " d " << d;
          EXPECT_NEAR(back[d], want_back[i], 1e-5) << "t " << t << " d " << d;
          const float* panel =
              key_bias->panel(head, t / kChunkTokens) + slot / kPanelTokens * kPanelTokens * kSize;
          score += static_cast<double>(back[d]) *
                   static_cast<double>(panel[d * kPanelTokens + slot % kPanelTokens]);
          want_score += static_cast<double>(q[d]) * want[i];
        }
        EXPECT_NEAR(score, want_score, 1e-4) << "q . R_t b at " << t;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, KeyBiases,
                         testing::Values(Rope::Layout::halves, Rope::Layout::pairs));

TEST(KeyBiases, StayAsTheyAreWithoutRope) {
  const std::vector<float> bias = {3, 5};
  AttentionConfig config;
  config.kv_heads = 1;
  config.head_size = 2;
  const RotaryKeyBias key_bias(bias.data(), nullptr, config, nullptr);
  float key[2] = {4, 4};
  key_bias.remove(77, 0, key);
  EXPECT_EQ(key[0], 1);
  EXPECT_EQ(key[1], -1);
  for (int t = 0; t < kChunkTokens; ++t)
    EXPECT_EQ(key_bias.panel(0, 0)[t / 16 * 32 + 16 + t % 16], 5) << t;
}

}  // namespace
}  // namespace strata
