#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "eval/compare.h"
#include "eval/perplexity.h"
#include "tensor/arena.h"

namespace strata {
namespace {

constexpr int kVocabulary = 10;

// A "model" one can calculate by hand: after token t, token t + 1 has logit log(odds), all others
// 0.
class SuccessorExec : public Exec {
 public:
  explicit SuccessorExec(double odds, DType dtype = DType::f32) : odds_(odds), dtype_(dtype) {}

  void begin(const Batch& batch) override {
    arena_.reset();
    for (const SequenceRows& s : batch.sequences) {
      EXPECT_EQ(s.first_position, 0);
      first_tokens.push_back(batch.tokens[static_cast<size_t>(s.first_row)]);
    }
  }
  Tensor embed(const Embedding&, const Batch& batch) override {
    const Tensor x = arena_.tensor(DType::f64, batch.size(), 1);
    for (int64_t i = 0; i < batch.size(); ++i)
      *x.row<double>(i) = batch.tokens[static_cast<size_t>(i)];
    return x;
  }
  Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) override {
    const Tensor y = arena_.tensor(DType::f64, static_cast<int64_t>(rows.size()), 1);
    for (size_t i = 0; i < rows.size(); ++i)
      *y.row<double>(static_cast<int64_t>(i)) = *x.row<double>(rows[i]);
    return y;
  }
  Tensor logits(const Tensor& x, const Linear&) override {
    EXPECT_LE(x.rows, 16);
    const Tensor y = arena_.tensor(dtype_, x.rows, kVocabulary);
    for (int64_t r = 0; r < x.rows; ++r) {
      const int next = (static_cast<int>(*x.row<double>(r)) + 1) % kVocabulary;
      for (int v = 0; v < kVocabulary; ++v) {
        const double value = v == next ? std::log(odds_) : 0;
        if (dtype_ == DType::f32)
          y.row<float>(r)[v] = static_cast<float>(value);
        else
          y.row<double>(r)[v] = value;
      }
    }
    return y;
  }
  Tensor norm(const Tensor& x, const Norm&) override { return x; }
  Tensor attend(const Qkv& qkv, const AttentionConfig&, int, const Batch&) override {
    return qkv.q;
  }
  Tensor linear(const Tensor& x, const Linear&) override { return x; }
  Tensor add(const Tensor& a, const Tensor&) override { return a; }

  std::vector<int32_t> first_tokens;  // of every window so far

 protected:
  Tensor rope(const Tensor& x, int, int, const Rope&, const Batch&) override { return x; }
  Tensor act(const Tensor& x, Activation) override { return x; }
  Tensor act_mul(const Tensor& gate, const Tensor&, Activation) override { return gate; }

 private:
  double odds_;
  DType dtype_;
  Arena arena_;
};

Model empty_model() {
  Model model;
  model.config.context_length = 64;
  model.config.vocabulary_size = kVocabulary;
  return model;
}

TEST(Perplexity, ScoresTheSecondHalfOfEachWindow) {
  const Model model = empty_model();
  // Two windows of 8 and a rest. Positions 4..6 of each score the tokens at 5..7: in the first
  // window 5, 6, 7 follow their predecessor, in the second only one of three does.
  const std::vector<TokenId> tokens = {9, 9, 9, 9, 4, 5, 6, 7, 0, 0, 0, 0, 4, 5, 5, 9, 1, 2};
  const double z = 9 + 3.0;  // nine others and odds of 3
  const double good = std::log(z / 3), bad = std::log(z);
  const double nll = (4 * good + 2 * bad) / 6;
  for (const DType dtype : {DType::f32, DType::f64}) {
    SuccessorExec exec(3, dtype);
    const PerplexityResult r = perplexity(exec, model, tokens, {.context = 8});
    EXPECT_EQ(r.tokens, 6);
    EXPECT_NEAR(r.nll, nll, 1e-6);
    EXPECT_NEAR(r.perplexity, std::exp(nll), 1e-5);
    const double variance = (4 * good * good + 2 * bad * bad) / 6 - nll * nll;
    EXPECT_NEAR(r.standard_error, std::exp(nll) * std::sqrt(variance / 5), 1e-5);
    EXPECT_NEAR(perplexity(exec, model, tokens, {.context = 8, .chunks = 1}).nll, good, 1e-6);
  }
}

TEST(Perplexity, EachWindowStartsWithTheGivenToken) {
  const Model model = empty_model();
  SuccessorExec exec(3);
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  perplexity(exec, model, tokens, {.context = 4, .first_token = 9});
  EXPECT_EQ(exec.first_tokens, (std::vector<int32_t>{9, 9}));
  perplexity(exec, model, tokens, {.context = 4});
  EXPECT_EQ(exec.first_tokens, (std::vector<int32_t>{9, 9, 1, 5}));
}

TEST(Perplexity, RefusesWhatItCannotScore) {
  const Model model = empty_model();
  SuccessorExec exec(3), broken(std::nan(""));
  const std::vector<TokenId> tokens(20, 1);
  const auto code = [&](Exec& e, int64_t context, size_t count) {
    try {
      perplexity(e, model, std::span(tokens).first(count), {.context = context});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code(exec, 16, 15), ErrorCode::invalid_argument);
  EXPECT_EQ(code(exec, 65, 20), ErrorCode::invalid_argument);
  EXPECT_EQ(code(exec, 2, 20), ErrorCode::invalid_argument);
  EXPECT_EQ(code(broken, 16, 20), ErrorCode::data_corrupt);
}

TEST(Compare, DivergenceByHand) {
  const Model model = empty_model();
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
  SuccessorExec p(3, DType::f64), q(5), same(3);
  const Divergence d = compare_distributions(p, q, model, tokens);
  // P: 3/12 and nine times 1/12; Q: 5/14 and nine times 1/14.
  const double kl = 0.25 * std::log((3.0 / 12) / (5.0 / 14)) + 0.75 * std::log(14.0 / 12);
  EXPECT_EQ(d.positions, 20);
  EXPECT_NEAR(d.mean_kl, kl, 1e-6);
  EXPECT_NEAR(d.largest_kl, kl, 1e-6);
  EXPECT_EQ(d.same_best, 1);
  EXPECT_NEAR(compare_distributions(p, same, model, tokens).mean_kl, 0, 1e-7);
}

TEST(Compare, GreedyMissesSayWhereAndByHowMuch) {
  const Model model = empty_model();
  SuccessorExec exec(20);
  const std::vector<TokenId> prompt = {5, 6};
  const std::vector<TokenId> text = {7, 8, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 4};
  const auto misses = check_greedy(exec, model, prompt, text);
  ASSERT_EQ(misses.size(), 2u);
  EXPECT_EQ(misses[0].index, 2);
  EXPECT_EQ(misses[0].expected, 8);
  EXPECT_EQ(misses[0].best, 9);
  EXPECT_NEAR(misses[0].gap, std::log(20.0), 1e-6);
  EXPECT_EQ(misses[1].index, 19);
}

}  // namespace
}  // namespace strata
