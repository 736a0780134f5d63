// The ops of training against PyTorch in f64 (tests/golden/train_ops, tools/oracle/train_ops.py),
// with one and with three threads: the bits must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/philox.h"
#include "kernels/guarded_for_test.h"
#include "numeric/half.h"
#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/matching_loss.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/train_attention.h"
#include "support/tested_levels.h"

namespace strata {
namespace {

// A matrix of its own.
struct Matrix {
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), data(static_cast<size_t>(r * c)) {}
  Matrix(int64_t r, int64_t c, uint32_t seed, float range = 1)
      : rows(r), columns(c), data(test_values(r * c, seed, range)) {}
  Tensor view() { return {DType::f32, rows, columns, columns, data.data(), -1}; }
  int64_t rows, columns;
  std::vector<float> data;
};

// The results of one case, taken off one after the other.
class Golden {
 public:
  explicit Golden(const std::string& name) {
    std::ifstream in("tests/golden/train_ops/" + name + ".f64", std::ios::binary);
    EXPECT_TRUE(in) << name;
    double x;
    while (in.read(reinterpret_cast<char*>(&x), sizeof x)) values_.push_back(x);
  }
  ~Golden() { EXPECT_EQ(next_, values_.size()) << "results of the golden not looked at"; }
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;

  // Within `relative` of the largest result of the same tensor.
  void expect(const std::vector<float>& got, double relative, const char* what) {
    ASSERT_LE(next_ + got.size(), values_.size()) << what;
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::abs(values_[next_ + i]));
    EXPECT_GT(largest, 0) << what;
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(double{got[i]}, values_[next_ + i], relative * largest) << what << " " << i;
    next_ += got.size();
  }
  double next() { return values_.at(next_++); }

 private:
  std::vector<double> values_;
  size_t next_ = 0;
};

// A few roundings in sums of some tens of terms, relative to the largest result.
constexpr double kTolerance = 4e-6;

class TrainOps : public LevelTest {
 protected:
  // Runs `work`, which fills `out`, with one and three threads: all bits must agree.
  void run(const std::vector<Matrix*>& out, const std::function<void(const OpContext&)>& work) {
    std::vector<std::vector<float>> before, first;
    for (Matrix* m : out) before.push_back(m->data);
    ThreadPool one(1), three(3);
    work({&level_kernels(), &one});
    for (size_t i = 0; i < out.size(); ++i) {
      first.push_back(out[i]->data);
      out[i]->data = before[i];
    }
    work({&level_kernels(), &three});
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i]->data, first[i]) << "result " << i;
  }
  Workspace workspace_;
};

TEST_P(TrainOps, Norms) {
  Matrix x(70, 33, 1, 3), w(1, 33, 2, 2), b(1, 33, 3), d_y(70, 33, 4);
  Matrix y(70, 33), d_x(70, 33), d_w(1, 33), d_b(1, 33), z(70, 33), e_x(70, 33), e_w(1, 33);
  const NormWeights rms{w.data.data(), nullptr, 1e-5f}, layer{w.data.data(), b.data.data(), 1e-5f};
  run({&y, &z, &d_x, &d_w, &d_b, &e_x, &e_w}, [&](const OpContext& context) {
    rms_norm_forward(x.view(), rms, y.view(), context);
    rms_norm_backward(x.view(), rms, d_y.view(), {e_x.view(), e_w.data.data(), nullptr}, workspace_,
                      context);
    layer_norm_forward(x.view(), layer, z.view(), context);
    layer_norm_backward(x.view(), layer, d_y.view(), {d_x.view(), d_w.data.data(), d_b.data.data()},
                        workspace_, context);
  });
  Golden golden("norms");
  golden.expect(y.data, kTolerance, "rms y");
  golden.expect(e_x.data, kTolerance, "rms d_x");
  golden.expect(e_w.data, kTolerance, "rms d_w");
  golden.expect(z.data, kTolerance, "layer y");
  golden.expect(d_x.data, kTolerance, "layer d_x");
  golden.expect(d_w.data, kTolerance, "layer d_w");
  golden.expect(d_b.data, kTolerance, "layer d_b");
}

TEST_P(TrainOps, Activations) {
  Matrix x(3, 41, 5, 5), up(3, 41, 6), d_y(3, 41, 7);
  Golden golden("activations");
  for (const auto kind : {ActivationKind::silu, ActivationKind::gelu_tanh, ActivationKind::gelu_erf,
                          ActivationKind::relu}) {
    Matrix d_x(3, 41), y(3, 41), d_gate(3, 41), d_up(3, 41);
    run({&d_x, &y, &d_gate, &d_up}, [&](const OpContext& context) {
      activation_backward(kind, x.view(), d_y.view(), d_x.view(), context);
      gated_forward(kind, x.view(), up.view(), y.view(), context);
      gated_backward(kind, x.view(), up.view(), d_y.view(), {d_gate.view(), d_up.view()}, context);
    });
    golden.expect(d_x.data, kTolerance, "d_x");
    golden.expect(y.data, kTolerance, "gated");
    golden.expect(d_gate.data, kTolerance, "d_gate");
    golden.expect(d_up.data, kTolerance, "d_up");
  }
  Matrix y(3, 41), d_x(3, 41);
  run({&y, &d_x}, [&](const OpContext& context) {
    softmax_forward(x.view(), y.view(), context);
    softmax_backward(y.view(), d_y.view(), d_x.view(), context);
  });
  golden.expect(d_x.data, kTolerance, "softmax d_x");
}

const std::vector<int32_t> kTargets = {3, 49, kIgnoreTarget, 0, 7, 7, kIgnoreTarget, 21, 30};

TEST_P(TrainOps, CrossEntropyOfAHead) {
  Matrix x(9, 12, 8, 2), w(50, 12, 9), d_x(9, 12), d_w(50, 12), loss(1, 1);
  CrossEntropyLoss total;
  run({&d_x, &d_w}, [&](const OpContext& context) {
    total = cross_entropy_head(x.view(), w.view(), kTargets.data(),
                               {.smoothing = 0.1f, .factor = 1.0f / 7}, {d_x.view(), d_w.view()},
                               workspace_, context);
  });
  EXPECT_EQ(total.tokens, 7);
  Golden golden("cross_entropy");
  const double wanted = golden.next();
  EXPECT_NEAR(total.sum, wanted, 1e-6 * wanted);
  golden.expect(d_x.data, kTolerance, "d_x");
  golden.expect(d_w.data, kTolerance, "d_w");
  for (const int64_t ignored : {2, 6})
    for (int64_t d = 0; d < 12; ++d)
      EXPECT_EQ(d_x.data[static_cast<size_t>(ignored * 12 + d)], 0.0f);
}

// More rows than a chunk holds: the loss and each row's gradient are those of the row alone, and
// memory does not grow with the rows.
TEST_P(TrainOps, CrossEntropyChunksChangeNothing) {
  ThreadPool pool(2);
  const OpContext context{&level_kernels(), &pool};
  const int64_t N = 200, D = 3, V = 200'000;
  Matrix x(N, D, 8), w(V, D, 9), d_x(N, D), one(1, D);
  std::vector<int32_t> targets;
  for (int64_t n = 0; n < N; ++n) targets.push_back(static_cast<int32_t>(n * 601));
  const CrossEntropyLoss all = cross_entropy_head(x.view(), w.view(), targets.data(), {},
                                                  {d_x.view(), {}}, workspace_, context);
  EXPECT_LT(workspace_.held_bytes(), size_t{100} << 20);  // the logits would be 160 MB
  double sum = 0;
  for (const int64_t n : {int64_t{0}, int64_t{95}, int64_t{96}, N - 1}) {
    Tensor row = x.view();
    row.rows = 1;
    row.data = row.row<float>(n);
    const auto alone = cross_entropy_head(row, w.view(), targets.data() + n, {}, {one.view(), {}},
                                          workspace_, context);
    sum += alone.sum;
    for (int64_t d = 0; d < D; ++d)
      EXPECT_EQ(one.data[static_cast<size_t>(d)], d_x.data[static_cast<size_t>(n * D + d)]);
  }
  EXPECT_NEAR(all.sum / static_cast<double>(N), sum / 4, 2);
}

TEST_P(TrainOps, LossesAgainstAnotherMatrix) {
  Matrix x(9, 50, 14, 3), target(9, 50, 15, 2), d_x(9, 50);
  const std::vector<int32_t> targets = {3, 49, kIgnoreTarget, 0, 7, 7, kIgnoreTarget, 21, 30};
  const MatchingLossOptions options{targets.data(), 1.0f / 7};
  Golden golden("matching");
  using Op = std::function<MatchingLoss(const OpContext&)>;
  const std::pair<const char*, Op> ops[] = {
      {"squared error",
       [&](const OpContext& c) {
         return squared_error_loss(x.view(), target.view(), options, d_x.view(), workspace_, c);
       }},
      {"cosine",
       [&](const OpContext& c) {
         return cosine_loss(x.view(), target.view(), options, d_x.view(), workspace_, c);
       }},
      {"kl", [&](const OpContext& c) {
         return kl_loss(x.view(), target.view(), 2, options, d_x.view(), workspace_, c);
       }}};
  for (const auto& [name, op] : ops) {
    const double wanted = golden.next();
    run({&d_x}, [&, &op = op](const OpContext& context) {
      const MatchingLoss loss = op(context);
      EXPECT_EQ(loss.rows, 7);
      EXPECT_NEAR(loss.sum / 7, wanted, 1e-6 * wanted);
    });
    golden.expect(d_x.data, kTolerance, name);
  }
  // Without a gradient, and of all rows.
  ThreadPool pool(1);
  const OpContext context{&level_kernels(), &pool};
  const MatchingLoss all = cosine_loss(x.view(), target.view(), {}, {}, workspace_, context);
  EXPECT_EQ(all.rows, 9);
  EXPECT_NEAR(all.sum / 9, golden.next(), 1e-6);
}

TEST_P(TrainOps, AdamW) {
  Matrix p(1, 37, 10), m(1, 37), v(1, 37);
  run({&p, &m, &v}, [&](const OpContext& context) {
    for (int64_t step = 1; step <= 5; ++step) {
      Matrix g(1, 37, 19 + static_cast<uint32_t>(step));
      adamw({p.data, g.data, m.data, v.data},
            {.learning_rate = 0.01f,
             .beta1 = 0.9f,
             .beta2 = 0.95f,
             .weight_decay = 0.1f,
             .gradient_factor = 0.5f,
             .step = step},
            context);
    }
  });
  Golden golden("adamw");
  golden.expect(p.data, 1e-6, "p");
  golden.expect(m.data, 1e-6, "m");
  golden.expect(v.data, 1e-6, "v");
}

TEST_P(TrainOps, AttentionOfGroupedHeadsInAWindow) {
  Matrix q(50, 64, 1, 1.5f), k(50, 32, 2, 1.5f), v(50, 32, 3, 2), d_y(50, 64, 4);
  Matrix y(50, 64), d_q(50, 64), d_k(50, 32), d_v(50, 32), max(4, 50), sum(4, 50);
  const std::vector<AttentionSequence> whole = {{0, 50, 0, 50}};
  std::vector<int32_t> begin(50), end(50);
  attention_ranges(whole, AttentionMask::causal, 20, begin.data(), end.data());
  const AttentionHeads heads{4, 2, 16, 0.3f};
  const AttentionVisibility visible{whole, begin.data(), end.data()};
  const AttentionSaved saved{max.data.data(), sum.data.data(), 50};
  run({&y, &d_q, &d_k, &d_v}, [&](const OpContext& context) {
    train_attention_forward(q.view(), k.view(), v.view(), heads, visible, y.view(), saved,
                            workspace_, context);
    train_attention_backward(q.view(), k.view(), v.view(), heads, visible, y.view(), saved,
                             d_y.view(), {d_q.view(), d_k.view(), d_v.view()}, workspace_, context);
  });
  Golden golden("attention");
  golden.expect(y.data, kTolerance, "y");
  golden.expect(d_q.data, kTolerance, "d_q");
  golden.expect(d_k.data, kTolerance, "d_k");
  golden.expect(d_v.data, kTolerance, "d_v");
}

// Weights in bf16 give what their exact f32 values give.
TEST_P(TrainOps, WeightsInBf16AreReadExactly) {
  Matrix w(50, 12, 9), x(9, 12, 8, 2);
  std::vector<uint16_t> half;
  for (float& v : w.data) {
    half.push_back(encode_bf16(v));
    v = decode_bf16(half.back());
  }
  const Tensor rounded{DType::bf16, 50, 12, 12, half.data(), -1};
  // Levels that multiply bf16 round rows and gradients, too, by up to 2^-8 of each; results are of
  // the order of 1.
  const bool rounds = level_kernels().gemm_bf16 != nullptr;
  std::vector<std::vector<float>> results;
  for (const Tensor& weight : {w.view(), rounded}) {
    Matrix d_x(9, 12), d_w(50, 12), y(3, 12), loss(1, 1);
    run({&d_x, &d_w, &y, &loss}, [&](const OpContext& context) {
      const std::vector<int32_t> ids = {4, 49, 0};
      embedding_gather(weight, ids.data(), y.view(), context);
      const CrossEntropyLoss total =
          cross_entropy_head(x.view(), weight, kTargets.data(), {.factor = 0.5f},
                             {d_x.view(), d_w.view()}, workspace_, context);
      loss.data[0] = static_cast<float>(total.sum);
    });
    for (const Matrix* m : {&d_x, &d_w, &y, &loss}) results.push_back(m->data);
  }
  for (size_t i = 0; i < 4; ++i) {
    if (!rounds || i == 2) {
      EXPECT_EQ(results[i], results[i + 4]) << i;
      continue;
    }
    EXPECT_NE(results[i], results[i + 4]) << i;
    for (size_t j = 0; j < results[i].size(); ++j)
      EXPECT_NEAR(results[i][j], results[i + 4][j], 0.02) << i;
  }
  EXPECT_EQ(results[2][12], w.data[49 * 12]);
}

TEST_P(TrainOps, EmbeddingGathersAndScatters) {
  Matrix table(5, 40, 1), y(6, 40), d_table(5, 40, 2);
  const std::vector<int32_t> ids = {4, 0, 4, 4, 2, 0};
  const std::vector<float> before = d_table.data;
  run({&y, &d_table}, [&](const OpContext& context) {
    embedding_gather(table.view(), ids.data(), y.view(), context);
    embedding_scatter_add(y.view(), ids.data(), d_table.view(), context);
  });
  const std::vector<int> count = {2, 0, 1, 0, 3};
  for (size_t r = 0; r < 5; ++r)
    for (size_t c = 0; c < 40; ++c) {
      float wanted = before[r * 40 + c];
      for (int i = 0; i < count[r]; ++i) wanted += table.data[r * 40 + c];
      EXPECT_EQ(d_table.data[r * 40 + c], wanted);
    }
}

TEST_P(TrainOps, RopeTurnsAndTurnsBack) {
  // By hand: position 1 turns by a right angle, the element past the pairs stays.
  const std::vector<float> cos = {1, 0}, sin = {0, 1}, cos2 = {1, 1, 0, 0}, sin2 = {0, 0, -1, 1};
  const std::vector<int32_t> position = {0, 1};
  for (const RopeLayout layout : {RopeLayout::halves, RopeLayout::pairs}) {
    const bool halves = layout == RopeLayout::halves;
    const RopeAngles angles{layout,
                            halves ? cos.data() : cos2.data(),
                            halves ? sin.data() : sin2.data(),
                            halves ? 1 : 2,
                            2,
                            1};
    Matrix x(2, 6), y(2, 6), back(2, 6);
    x.data = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6};
    run({&y, &back}, [&](const OpContext& context) {
      rope(x.view(), 2, 3, angles, position.data(), RopeDirection::forward, y.view(), context);
      rope(y.view(), 2, 3, angles, position.data(), RopeDirection::backward, back.view(), context);
    });
    EXPECT_EQ(y.data, (std::vector<float>{1, 2, 3, 4, 5, 6, -2, 1, 3, -5, 4, 6}));
    EXPECT_EQ(back.data, x.data);
  }
}

TEST_P(TrainOps, DropoutKeepsItsShareAndItsMask) {
  Matrix x(50, 101), y(50, 101), z(50, 101), other(50, 101);
  std::fill(x.data.begin(), x.data.end(), 1.0f);
  const DropoutMask mask{0.2f, 7, 3, 5};
  run({&y, &z, &other}, [&](const OpContext& context) {
    dropout(x.view(), mask, y.view(), context);
    dropout(y.view(), mask, z.view(), context);
    dropout(x.view(), {0.2f, 7, 4, 5}, other.view(), context);
  });
  int kept = 0, same = 0;
  for (size_t i = 0; i < y.data.size(); ++i) {
    // Its place, step and seed as in DropoutMask; the purpose is dropout's.
    const auto words = philox4x32({static_cast<uint32_t>(i / 4), 3, 1u | 5u << 4, 0}, {7, 0});
    EXPECT_EQ(y.data[i] != 0.0f, words[i % 4] >= static_cast<uint32_t>(0.2f * 0x1p32)) << i;
    EXPECT_TRUE(y.data[i] == 0.0f || y.data[i] == 1.25f);
    EXPECT_EQ(z.data[i] == 0.0f, y.data[i] == 0.0f);
    kept += y.data[i] != 0.0f;
    same += (y.data[i] == 0.0f) == (other.data[i] == 0.0f);
  }
  // Binomial: 5,050 draws of 0.8 (and of 0.68 for two masks that know nothing of each other),
  // within five standard deviations.
  EXPECT_NEAR(kept, 4040, 5 * 28.5);
  EXPECT_NEAR(same, 3434, 5 * 33.2);
}

TEST_P(TrainOps, NormOfAllGradients) {
  std::vector<float> a = test_values(10'000, 1), b = test_values(3, 2);
  double wanted = 0;
  for (const float x : a) wanted += double{x} * double{x};
  for (const float x : b) wanted += double{x} * double{x};
  ThreadPool one(1), three(3);
  const std::vector<std::span<const float>> tensors = {a, {}, b};
  const double sum = sum_of_squares(tensors, {&level_kernels(), &one});
  EXPECT_NEAR(sum, wanted, 1e-6 * wanted);
  EXPECT_EQ(sum_of_squares(tensors, {&level_kernels(), &three}), sum);
  EXPECT_EQ(clip_factor(4, 1), 0.25f);
  EXPECT_EQ(clip_factor(0.5, 1), 1.0f);
  EXPECT_EQ(clip_factor(4, 0), 1.0f);
  EXPECT_TRUE(std::isnan(clip_factor(std::numeric_limits<double>::infinity(), 1)));
}

TEST_P(TrainOps, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  const OpContext context{&level_kernels(), &pool};
  Matrix x(2, 4), wrong(2, 5);
  const std::vector<int32_t> bad = {1, 9};
  const auto message = [&](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { rms_norm_forward(x.view(), {}, wrong.view(), context); }),
            "rms_norm_forward: y is [2, 5], wanted [2, 4]");
  EXPECT_EQ(message([&] {
              gated_forward(ActivationKind::silu, x.view(), wrong.view(), x.view(), context);
            }),
            "gated_forward: up is [2, 5], wanted [2, 4]");
  EXPECT_EQ(message([&] { cross_entropy(x.view(), bad.data(), {}, workspace_, context); }),
            "cross_entropy: target 1 is 9, wanted 0 to 3 or -100 (ignored)");
  EXPECT_EQ(message([&] { embedding_gather(x.view(), bad.data(), x.view(), context); }),
            "embedding_gather: id 9 of row 1 is outside the table's 2 rows");
  EXPECT_EQ(message([&] {
              adamw({x.data, wrong.data, x.data, x.data}, {}, context);
            }),
            "adamw: gradient has 10 elements, the parameter 8");
  EXPECT_EQ(message([&] {
              dropout(x.view(), {1.0f, 0, 0, 0}, x.view(), context);
            }),
            "dropout: probability is 1, wanted 0 to below 1");
  EXPECT_EQ(message([&] { cosine_loss(x.view(), wrong.view(), {}, {}, workspace_, context); }),
            "cosine_loss: target is [2, 5], wanted [2, 4]");
  EXPECT_EQ(message([&] { kl_loss(x.view(), x.view(), 0, {}, {}, workspace_, context); }),
            "kl_loss: temperature is 0, wanted above 0");
  const RopeAngles angles{RopeLayout::halves, x.data.data(), x.data.data(), 1, 2, 1};
  EXPECT_EQ(message([&] {
              rope(x.view(), 2, 2, angles, bad.data(), RopeDirection::forward, x.view(), context);
            }),
            "rope: row 1 has position 9, there are angles for 2");
}

INSTANTIATE_TEST_SUITE_P(Levels, TrainOps, testing::ValuesIn(tested_levels()), name_of_level);

}  // namespace
}  // namespace strata
