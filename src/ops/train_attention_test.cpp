#include "ops/train_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/philox.h"
#include "kernels/guarded_for_test.h"
#include "kernels/ref/train_attention.h"
#include "kernels/train_attention.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

constexpr double kEps = 0x1p-24;

Tensor view(float* data, int64_t rows, int64_t columns) {
  return {DType::f32, rows, columns, columns, data, -1};
}

// A batch, its results and what they are kept in. All memory ends (or begins) at a guard page.
struct Case {
  Case(AttentionHeads h, std::vector<AttentionSequence> list, AttentionMask mask, int64_t window,
       Guard side = Guard::after, float range = 1.5f)
      : heads(h), sequences(std::move(list)) {
    for (const AttentionSequence& s : sequences) {
      N = std::max(N, s.first_query + s.queries);
      Nk = std::max(Nk, s.first_key + s.keys);
    }
    begin.assign(static_cast<size_t>(N), 0);
    end.assign(static_cast<size_t>(N), 0);
    attention_ranges(sequences, mask, window, begin.data(), end.data());
    const int64_t wide = int64_t{h.heads} * h.head_size, narrow = int64_t{h.kv_heads} * h.head_size;
    const auto make = [&](int64_t rows, int64_t columns, uint32_t seed, float size) {
      return std::make_unique<Guarded>(test_values(rows * columns, seed, size), side);
    };
    q = make(N, wide, 1, range);
    k = make(Nk, narrow, 2, range);
    v = make(Nk, narrow, 3, 2);
    d_y = make(N, wide, 4, 1);
    y = make(N, wide, 5, 1);
    d_q = make(N, wide, 6, 1);
    d_k = make(Nk, narrow, 7, 1);
    d_v = make(Nk, narrow, 8, 1);
    max = make(h.heads, N, 9, 1);
    sum = make(h.heads, N, 10, 1);
  }
  AttentionVisibility visible() const { return {sequences, begin.data(), end.data()}; }
  Tensor wide(const std::unique_ptr<Guarded>& m) const {
    return view(m->data(), N, int64_t{heads.heads} * heads.head_size);
  }
  Tensor narrow(const std::unique_ptr<Guarded>& m) const {
    return view(m->data(), Nk, int64_t{heads.kv_heads} * heads.head_size);
  }
  AttentionSaved saved() const { return {max->data(), sum->data(), N}; }
  void run(const OpContext& context, bool backward = true) {
    Workspace workspace;
    train_attention_forward(wide(q), narrow(k), narrow(v), heads, visible(), wide(y), saved(),
                            workspace, context);
    if (backward)
      train_attention_backward(wide(q), narrow(k), narrow(v), heads, visible(), wide(y), saved(),
                               wide(d_y), {wide(d_q), narrow(d_k), narrow(d_v)}, workspace,
                               context);
  }
  std::vector<std::vector<float>> results() const {
    return {y->values(), max->values(), sum->values(), d_q->values(), d_k->values(), d_v->values()};
  }

  AttentionHeads heads;
  std::vector<AttentionSequence> sequences;
  int64_t N = 0, Nk = 0;
  std::vector<int32_t> begin, end;
  std::unique_ptr<Guarded> q, k, v, y, d_y, d_q, d_k, d_v, max, sum;
};

// Rows of one head, contiguous.
std::vector<float> head_rows(const Guarded& m, int64_t first, int64_t rows, int64_t columns,
                             int64_t head, int64_t Dh) {
  std::vector<float> out;
  for (int64_t r = first; r < first + rows; ++r)
    for (int64_t d = 0; d < Dh; ++d) out.push_back(m.data()[r * columns + head * Dh + d]);
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want,
                 const std::vector<double>& size, double relative, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(double{got[i]}, want[i], relative * size[i] + 1e-37) << what << " element " << i;
}

// Every result against the f64 twin. A score errs by (Dh + 8) eps of its size, which its weight
// feels twice (weight and sum); sums run over chunks of 128 (forward) or blocks of 96 (backward),
// and over the chunks; a weight's gradient feels its weight, d_y . v and delta, which has y in it.
void expect_agreement(const Case& c, const std::string& what) {
  const int64_t Dh = c.heads.head_size, wide = c.heads.heads * Dh, narrow = c.heads.kv_heads * Dh;
  const int64_t group = c.heads.heads / c.heads.kv_heads;
  for (const AttentionSequence& s : c.sequences) {
    for (int64_t kv = 0; kv < c.heads.kv_heads; ++kv) {
      const auto k = head_rows(*c.k, s.first_key, s.keys, narrow, kv, Dh);
      const auto v = head_rows(*c.v, s.first_key, s.keys, narrow, kv, Dh);
      ref::TrainAttentionResult sums;  // of the group's d_k and d_v
      double score = 0;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const auto q = head_rows(*c.q, s.first_query, s.queries, wide, h, Dh);
        const auto d_y = head_rows(*c.d_y, s.first_query, s.queries, wide, h, Dh);
        const auto ref = ref::train_attention(
            {q.data(), k.data(), v.data(), d_y.data(), c.begin.data() + s.first_query,
             c.end.data() + s.first_query, s.queries, s.keys, c.heads.head_size,
             static_cast<double>(c.heads.scale)});
        score = std::max(score, ref.score_size);
        const double weight = kEps * (2 * (static_cast<double>(Dh) + 8) * score + 2 * 128 +
                                      16 * (1 + static_cast<double>(s.keys) / 128));
        expect_near(head_rows(*c.y, s.first_query, s.queries, wide, h, Dh), ref.y, ref.y_size,
                    weight, what + " y");
        expect_near(
            head_rows(*c.d_q, s.first_query, s.queries, wide, h, Dh), ref.d_q, ref.d_q_size,
            2 * weight + kEps * (static_cast<double>(Dh) + 104 + static_cast<double>(s.keys) / 96),
            what + " d_q");
        if (sums.d_k.empty()) {
          sums = ref;
        } else {
          for (size_t i = 0; i < sums.d_k.size(); ++i) {
            sums.d_k[i] += ref.d_k[i];
            sums.d_v[i] += ref.d_v[i];
            sums.d_k_size[i] += ref.d_k_size[i];
            sums.d_v_size[i] += ref.d_v_size[i];
          }
        }
      }
      const double weight = kEps * (2 * (static_cast<double>(Dh) + 8) * score + 2 * 128 +
                                    16 * (1 + static_cast<double>(s.keys) / 128));
      const double order =
          kEps * (104 + static_cast<double>(group * s.queries) / 96 + static_cast<double>(group));
      expect_near(head_rows(*c.d_v, s.first_key, s.keys, narrow, kv, Dh), sums.d_v, sums.d_v_size,
                  weight + order, what + " d_v");
      expect_near(head_rows(*c.d_k, s.first_key, s.keys, narrow, kv, Dh), sums.d_k, sums.d_k_size,
                  2 * weight + order + kEps * static_cast<double>(Dh), what + " d_k");
    }
  }
}

class TrainAttention : public LevelTest {
 protected:
  OpContext context(ThreadPool& pool) const { return {&level_kernels(), &pool}; }
};

std::vector<AttentionSequence> self(std::vector<int64_t> lengths) {
  std::vector<AttentionSequence> list;
  int64_t row = 0;
  for (const int64_t n : lengths) {
    list.push_back({row, n, row, n});
    row += n;
  }
  return list;
}

TEST_P(TrainAttention, AgreesWithTheNaiveTwin) {
  ThreadPool pool(2);
  for (const int Dh : {1, 6, 16, 32, 50, 64, 128, 256}) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(Dh));
    for (const AttentionMask mask : {AttentionMask::full, AttentionMask::causal})
      for (const int64_t window : {0, 1, 37}) {
        Case c({2, 1, Dh, scale}, self({1, 7, 49, 130}), mask, window,
               window == 1 ? Guard::before : Guard::after);
        c.run(context(pool));
        expect_agreement(c, "Dh " + std::to_string(Dh) + " window " + std::to_string(window) +
                                (mask == AttentionMask::causal ? " causal" : " full"));
      }
  }
}

// Lengths around the tile (6, 16), the blocks (48, 96) and the chunk (128); multi-query, more keys
// than queries, and fewer.
TEST_P(TrainAttention, LengthsAroundTheBlocks) {
  ThreadPool pool(1);
  for (const int64_t T : {5, 6, 15, 16, 17, 47, 48, 95, 96, 97, 127, 128, 129, 192, 257}) {
    Case c({1, 1, 16, 0.25f}, self({T}), AttentionMask::causal, 0);
    c.run(context(pool));
    expect_agreement(c, "T " + std::to_string(T));
  }
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{3, 200}, {50, 7}, {97, 96}}) {
    for (const AttentionMask mask : {AttentionMask::full, AttentionMask::causal}) {
      Case c({3, 1, 20, 0.3f}, {{0, queries, 0, keys}}, mask, 0);
      c.run(context(pool));
      expect_agreement(c, std::to_string(queries) + " queries " + std::to_string(keys) + " keys");
    }
  }
}

// More causal queries than keys: the first see nothing and give zeros, forward and backward.
TEST_P(TrainAttention, AQueryWithoutKeysGivesZeros) {
  ThreadPool pool(2);
  Case c({1, 1, 8, 0.3f}, {{0, 20, 0, 5}}, AttentionMask::causal, 0);
  c.run(context(pool));
  for (int64_t i = 0; i < 15 * 8; ++i) {
    EXPECT_EQ(c.y->data()[i], 0.0f);
    EXPECT_EQ(c.d_q->data()[i], 0.0f);
  }
  for (int64_t n = 0; n < 15; ++n) EXPECT_EQ(c.sum->data()[n], 0.0f);
  EXPECT_NE(c.y->data()[15 * 8], 0.0f);
  expect_agreement(c, "few keys");
  // And none at all.
  std::fill(c.end.begin(), c.end.end(), 0);
  c.run(context(pool));
  for (const auto& m : {&c.y, &c.d_q, &c.d_k, &c.d_v})
    for (const float x : (*m)->values()) EXPECT_EQ(x, 0.0f);
}

// By hand: equal keys give the mean of the values; d_v is the mean's weight.
TEST_P(TrainAttention, EqualKeysGiveTheMean) {
  ThreadPool pool(1);
  Case c({1, 1, 2, 1.0f}, self({4}), AttentionMask::causal, 0);
  for (int64_t i = 0; i < 8; ++i) {
    c.k->data()[i] = 0.5f;
    const auto token = i / 2;
    c.v->data()[i] = static_cast<float>(token);
    c.d_y->data()[i] = i / 2 == 3 ? 1.0f : 0.0f;
  }
  c.run(context(pool));
  for (int64_t n = 0; n < 4; ++n) EXPECT_FLOAT_EQ(c.y->data()[2 * n], static_cast<float>(n) / 2);
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(c.d_v->data()[i], 0.25f);
  // d_q = sum_t p (d_y . v - delta) k: equal keys, so the sum is zero.
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(c.d_q->data()[i], 0, 1e-6);
  // d_k of key t for the last query: p (v_t - mean) 2 q with p = 1/4, mean 1.5, d_y = (1, 1).
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t d = 0; d < 2; ++d)
      EXPECT_NEAR(c.d_k->data()[2 * t + d],
                  0.25 * (static_cast<double>(t) - 1.5) * 2 * double{c.q->data()[6 + d]}, 1e-6);
}

TEST_P(TrainAttention, BitsDependOnTheSequenceAlone) {
  ThreadPool one(1), three(3);
  Case batch({4, 2, 24, 0.2f}, self({33, 150, 1, 260}), AttentionMask::causal, 100);
  batch.run(context(one));
  const auto expected = batch.results();
  batch.run(context(three));
  EXPECT_EQ(batch.results(), expected);
  // One sequence after the other.
  const std::vector<AttentionSequence> all = batch.sequences;
  for (const auto& m : {&batch.y, &batch.d_q, &batch.d_k, &batch.d_v})
    std::fill_n((*m)->data(), (*m)->values().size(), -1.0f);
  for (const AttentionSequence& s : all) {
    batch.sequences = {s};
    batch.run(context(three));
  }
  EXPECT_EQ(batch.results(), expected);
}

TEST_P(TrainAttention, LargeScoresNeitherOverflowNorVanish) {
  ThreadPool pool(1);
  Case c({2, 1, 16, 1.0f}, self({70}), AttentionMask::causal, 0, Guard::after, 60);
  c.run(context(pool));
  expect_agreement(c, "large scores");
  for (const auto& result : c.results())
    for (const float x : result) EXPECT_TRUE(std::isfinite(x));
}

// A probability that rounds to 1 drops next to everything, and the rest is finite.
TEST_P(TrainAttention, DropoutOfAlmostEverythingIsFinite) {
  constexpr int T = 70;
  ThreadPool pool(1);
  Case c({2, 1, 32, 0.1f, {0.999999f, 77, 5, 9}}, {{0, T, 0, T}}, AttentionMask::causal, 0);
  c.run(context(pool));
  for (const auto& result : c.results())
    for (const float x : result) EXPECT_TRUE(std::isfinite(x));
}

// Equal scores and one value per key show which weights are kept; with that mask the formulas in
// f64 give the results and gradients of other operands.
TEST_P(TrainAttention, DropoutKeepsWeightsByItsMask) {
  constexpr int T = 150, D = 160, H = 2;
  const AttentionHeads heads{H, 1, D, 0.1f, {0.3f, 77, 5, 9}};
  ThreadPool pool(1), three(3);
  const OpContext context = this->context(pool);
  Case shown(heads, {{0, T, 0, T}}, AttentionMask::causal, 0);
  std::fill_n(shown.q->data(), T * H * D, 0.0f);
  std::fill_n(shown.v->data(), T * D, 0.0f);
  for (int t = 0; t < T; ++t) shown.v->data()[t * D + t] = 1;
  shown.run(context, false);
  std::vector<double> mask(static_cast<size_t>(H * T * T), 0.0);  // 0 or 1 / (1 - p)
  int kept = 0;
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < T; ++i)
      for (int t = 0; t < T; ++t) {
        const double w = double{shown.y->data()[(i * H + h) * D + t]} * (i + 1);
        EXPECT_TRUE(w == 0 || (t <= i && std::abs(w - 1 / 0.7) < 1e-4)) << i << " " << t;
        mask[static_cast<size_t>((h * T + i) * T + t)] = w;
        kept += w > 0;
      }
  // Binomial: 22,650 draws of 0.7, within five standard deviations of 69.
  EXPECT_NEAR(kept, 15855, 345);

  Case c(heads, {{0, T, 0, T}}, AttentionMask::causal, 0);
  c.run(context);
  std::vector<double> y(T * H * D), d_q(T * H * D), d_k(T * D), d_v(T * D);
  const auto at = [](const std::unique_ptr<Guarded>& m, int row, int columns, int column) {
    return double{m->data()[row * columns + column]};
  };
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < T; ++i) {
      const auto wide = static_cast<size_t>((i * H + h) * D);
      std::vector<double> p(static_cast<size_t>(i) + 1), d_p(p.size());
      double sum = 0, delta = 0;
      for (int t = 0; t <= i; ++t) {
        double s = 0;
        for (int d = 0; d < D; ++d) s += at(c.q, i, H * D, h * D + d) * at(c.k, t, D, d);
        sum += p[static_cast<size_t>(t)] = std::exp(double{heads.scale} * s);
      }
      for (int t = 0; t <= i; ++t) {
        const auto key = static_cast<size_t>(t);
        const double m = mask[static_cast<size_t>((h * T + i) * T + t)];
        p[key] /= sum;
        for (int d = 0; d < D; ++d) {
          const double d_y = at(c.d_y, i, H * D, h * D + d);
          y[wide + static_cast<size_t>(d)] += m * p[key] * at(c.v, t, D, d);
          d_v[key * D + static_cast<size_t>(d)] += m * p[key] * d_y;
          d_p[key] += m * d_y * at(c.v, t, D, d);
        }
        delta += p[key] * d_p[key];
      }
      for (int t = 0; t <= i; ++t) {
        const auto key = static_cast<size_t>(t);
        const double d_s = double{heads.scale} * p[key] * (d_p[key] - delta);
        for (int d = 0; d < D; ++d) {
          d_q[wide + static_cast<size_t>(d)] += d_s * at(c.k, t, D, d);
          d_k[key * D + static_cast<size_t>(d)] += d_s * at(c.q, i, H * D, h * D + d);
        }
      }
    }
  const auto expect_close = [](const std::vector<float>& got, const std::vector<double>& want,
                               const char* what) {
    double largest = 0;
    for (const double w : want) largest = std::max(largest, std::abs(w));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(double{got[i]}, want[i], 2e-5 * largest) << what << " " << i;
  };
  expect_close(c.y->values(), y, "y");
  expect_close(c.d_q->values(), d_q, "d_q");
  expect_close(c.d_k->values(), d_k, "d_k");
  expect_close(c.d_v->values(), d_v, "d_v");
  Case again(heads, {{0, T, 0, T}}, AttentionMask::causal, 0);
  again.run(this->context(three));
  EXPECT_EQ(again.results(), c.results());
}

// Masks of more keys than are drawn at once, against their definition in AttentionHeads::dropout:
// with equal scores a weight is 1 / keys.
TEST_P(TrainAttention, DropoutsMaskIsThatOfItsDefinition) {
  constexpr int64_t kQueries = 3, kKeys = 1101, D = 8, H = 2;
  const AttentionHeads heads{H, 1, D, 0.1f, {0.3f, uint64_t{7} << 32 | 77, 5, 9}};
  ThreadPool pool(1);
  Case c(heads, {{0, kQueries, 0, kKeys}}, AttentionMask::full, 0);
  std::fill_n(c.q->data(), kQueries * H * D, 0.0f);
  c.run(context(pool));
  const auto kept = [](int64_t n, int64_t h, int64_t t) {
    const auto words = philox4x32(
        {static_cast<uint32_t>(t / 8 + (h << 20)), 5, 1u | 9u << 4, static_cast<uint32_t>(n)},
        {77, 7});
    const uint32_t limit = 19661;  // 0.3 of 65,536
    return (words[static_cast<size_t>(t % 8 / 2)] >> (16 * (t % 2)) & 0xffffu) >= limit
               ? 65536.0 / (65536 - limit)
               : 0.0;
  };
  std::vector<double> y(kQueries * H * D), d_v(kKeys * D);
  for (int64_t n = 0; n < kQueries; ++n)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < kKeys; ++t)
        for (int64_t d = 0; d < D; ++d) {
          const auto at = static_cast<size_t>((n * H + h) * D + d);
          const auto key = static_cast<size_t>(t * D + d);
          const double weight = kept(n, h, t) / kKeys;
          y[at] += weight * double{c.v->data()[key]};
          d_v[key] += weight * double{c.d_y->data()[at]};
        }
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(double{c.y->data()[i]}, y[i], 1e-5) << i;
  for (size_t i = 0; i < d_v.size(); ++i)
    EXPECT_NEAR(double{c.d_v->data()[i]}, d_v[i], 1e-7) << "key " << i / D;
}

TEST_P(TrainAttention, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  const auto message = [&](Case& c) -> std::string {
    try {
      c.run(context(pool));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  Case c({2, 1, 8, 1}, self({10}), AttentionMask::causal, 0);
  c.heads.kv_heads = 3;
  EXPECT_EQ(message(c), "attention_forward: 2 heads are no multiple of 3 key-value heads");
  c.heads.kv_heads = 1;
  c.end[4] = 11;
  EXPECT_EQ(message(c), "attention_forward: row 4 of q sees keys [0, 11), its sequence has 10");
  c.end[4] = 5;
  c.sequences[0].first_key = 1;
  EXPECT_EQ(message(c), "attention_forward: a sequence has keys [1, 11), k has 10 rows");
  c.sequences[0].first_key = 0;
  c.N = 9;
  EXPECT_EQ(message(c), "attention_forward: a sequence has queries [0, 10), q has 9 rows");
}

INSTANTIATE_TEST_SUITE_P(Levels, TrainAttention, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
