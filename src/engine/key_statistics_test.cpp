#include "engine/key_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace strata {
namespace {

// Two KV heads of 6, four queries' heads; two pairs turn, the last two elements do not.
constexpr int kHeads = 2, kQueryHeads = 4, kSize = 6, kPairs = 2, kRows = 5;

AttentionConfig test_config(const Rope& rope) {
  AttentionConfig config;
  config.heads = kQueryHeads;
  config.kv_heads = kHeads;
  config.head_size = kSize;
  config.rope = &rope;
  return config;
}

Rope test_rope(Rope::Layout layout) {
  Rope rope;
  rope.layout = layout;
  rope.inverse_frequency = {1.0, 0.3};
  rope.attention_factor = 1.25;
  return rope;
}

// Elements of pair i.
int first_of(const Rope& rope, int i) { return rope.layout == Rope::Layout::halves ? i : 2 * i; }
int second_of(const Rope& rope, int i) {
  return first_of(rope, i) + (rope.layout == Rope::Layout::halves ? kPairs : 1);
}

// Rows of `heads`, element by element from plain(head, d, position), turned by rope in f64.
template <class Plain>
std::vector<float> turned(const Rope& rope, int heads, Plain plain) {
  std::vector<float> out;
  for (int t = 0; t < kRows; ++t)
    for (int head = 0; head < heads; ++head) {
      double x[kSize];
      for (int d = 0; d < kSize; ++d) x[d] = plain(head, d, t);
      for (int i = 0; i < kPairs; ++i) {
        const double angle = t * rope.inverse_frequency[static_cast<size_t>(i)];
        double &first = x[first_of(rope, i)], &second = x[second_of(rope, i)];
        const double a = first, b = second;
        first = rope.attention_factor * (a * std::cos(angle) - b * std::sin(angle));
        second = rope.attention_factor * (b * std::cos(angle) + a * std::sin(angle));
      }
      for (const double v : x) out.push_back(static_cast<float>(v));
    }
  return out;
}

Tensor rows_of(std::vector<float>& values) {
  Tensor t;
  t.data = values.data();
  t.rows = kRows;
  t.columns = t.stride = static_cast<int64_t>(values.size()) / kRows;
  return t;
}

// Over positions 1..4 element d of a key has the mean 10 head + d and the variance (d + 1)^2; that
// of a query's head has the mean square (d + 1)^2 + head^2. Position 0 is apart.
double plain_key(int head, int d, int t) {
  constexpr double kAround[] = {1000, -1, 1, 1, -1};
  return head * 10 + d + (d + 1) * kAround[t];
}
double plain_query(int head, int d, int t) {
  constexpr double kAround[] = {1000, -1, -1, 1, 1};
  return head * kAround[t] + (t % 2 == 0 ? 1 : -1) * (d + 1);
}

TEST(KeyStatistics, AreOfWhatRopeTurnsFirstPositionsApart) {
  for (const Rope::Layout layout : {Rope::Layout::halves, Rope::Layout::pairs}) {
    const Rope rope = test_rope(layout);
    RopeTable table(rope, 16);
    table.fill_to(15);
    std::vector<float> keys = turned(rope, kHeads, plain_key);
    std::vector<float> queries = turned(rope, kQueryHeads, plain_query);
    KeyStatistics statistics(test_config(rope), &table);
    EXPECT_EQ(statistics.mean(), std::vector<float>(kHeads * kSize)) << "before anything was added";
    EXPECT_EQ(statistics.first_mean(), std::vector<float>(kHeads * kSize));
    EXPECT_EQ(statistics.scales(), std::vector<float>(kHeads * kSize, 1));
    const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
    statistics.add(rows_of(keys), rows_of(queries), positions);

    const std::vector<float> mean = statistics.mean(), first = statistics.first_mean(),
                             scales = statistics.scales();
    for (int head = 0; head < kHeads; ++head) {
      const auto at = [&](const std::vector<float>& v, int d) {
        return v[static_cast<size_t>(head * kSize + d)];
      };
      for (int d = 0; d < kSize; ++d) {
        EXPECT_NEAR(at(mean, d), head * 10 + d, 1e-5);
        EXPECT_NEAR(at(first, d), plain_key(head, d, 0), 1e-2);
      }
      // Queries 2 head and 2 head + 1 read this head.
      const double squares = (4.0 * head * head + (2.0 * head + 1) * (2.0 * head + 1)) / 2;
      const auto square = [](int d) { return (d + 1.0) * (d + 1.0); };
      for (int i = 0; i < kPairs; ++i) {
        const int a = first_of(rope, i), b = second_of(rope, i);
        const double key = square(a) + square(b);
        for (const int d : {a, b})
          EXPECT_NEAR(at(scales, d), std::pow((key + 2 * squares) / key, 1.0 / 8), 1e-5);
      }
      for (int d = 2 * kPairs; d < kSize; ++d)
        EXPECT_NEAR(at(scales, d), std::pow((square(d) + squares) / square(d), 1.0 / 8), 1e-5);
    }
  }
}

TEST(KeyStatistics, ScalesAreOneWhereNothingVaries) {
  Rope rope = test_rope(Rope::Layout::halves);
  RopeTable table(rope, 16);
  table.fill_to(15);
  std::vector<float> keys(kRows * kHeads * kSize), queries(kRows * kQueryHeads * kSize, 1);
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
  KeyStatistics of_no_keys(test_config(rope), &table), of_no_queries(test_config(rope), &table);
  of_no_keys.add(rows_of(keys), rows_of(queries), positions);
  EXPECT_EQ(of_no_keys.scales(), std::vector<float>(kHeads * kSize, 1));
  keys = turned(rope, kHeads, plain_key);
  std::fill(queries.begin(), queries.end(), 0.0f);
  of_no_queries.add(rows_of(keys), rows_of(queries), positions);
  EXPECT_EQ(of_no_queries.scales(), std::vector<float>(kHeads * kSize, 1));
}

}  // namespace
}  // namespace strata
