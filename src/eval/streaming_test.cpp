#include "eval/streaming.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "engine/random_model_for_test.h"
#include "eval/perplexity.h"
#include "exec/ref_exec.h"
#include "model/transformer.h"

namespace strata {
namespace {

constexpr int64_t kContext = 128;

std::unique_ptr<Model> small_model() {
  RandomModelOptions options;
  options.layers = 2;
  options.context = kContext;
  options.linear_type = options.embedding_type = TensorType::f32;
  return random_model(options);
}

std::vector<TokenId> text_of(int64_t size) {
  std::mt19937 random(4);
  std::vector<TokenId> text;
  for (int64_t i = 0; i < size; ++i) text.push_back(static_cast<TokenId>(random() % 211));
  return text;
}

ServeExecOptions with_policy(const KvPolicy& policy, int64_t context) {
  ServeExecOptions options;
  options.threads = 1;
  options.kv_type = KvType::f32;
  options.kv_policy = policy;
  options.context = context;
  options.kv_memory = 16 << 20;
  options.max_sequences = 1;
  options.step_rows = 64;
  return options;
}

TEST(Streaming, ScoresAreThoseOfTheReference) {
  const auto model = small_model();
  const std::vector<TokenId> text = text_of(100);
  ServeExec exec(*model, with_policy({}, 0));
  const auto segments = streaming_perplexity(exec, *model, text, {.segment = 40});
  ASSERT_EQ(segments.size(), 3u);
  RefExec reference;
  std::vector<int32_t> positions(100);
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceRows part{0, 100, 0, -1};
  const Tensor hidden =
      forward_hidden(reference, model->transformer, Batch{text, positions, {&part, 1}});
  const Tensor logits = forward_logits(reference, model->transformer, hidden, positions);
  for (size_t s = 0; s < 3; ++s) {
    const int64_t first = 1 + 40 * static_cast<int64_t>(s);
    EXPECT_EQ(segments[s].first, first);
    EXPECT_EQ(segments[s].tokens, s < 2 ? 40 : 19);
    double sum = 0;
    for (int64_t i = 0; i < segments[s].tokens; ++i)
      sum += negative_log_likelihood(logits, first + i - 1, text[static_cast<size_t>(first + i)]);
    EXPECT_NEAR(segments[s].nll, sum / static_cast<double>(segments[s].tokens), 1e-4);
    EXPECT_NEAR(segments[s].perplexity, std::exp(segments[s].nll), 1e-9 * segments[s].perplexity);
  }
  EXPECT_EQ(segments.back().pages, 7) << "99 positions";
  EXPECT_EQ(exec.kv().used_pages(), 0) << "all given back";
}

// 5,000 tokens through a model of 128 positions: the same bits however the text is cut into passes,
// pages constant, nothing that is not a number.
TEST(Streaming, SinksGoOnForEverInConstantMemory) {
  const auto model = small_model();
  const std::vector<TokenId> text = text_of(5000);
  const KvPolicy policy{60, 4};
  ServeExec exec(*model, with_policy(policy, 6000)), again(*model, with_policy(policy, 6000));
  const auto segments = streaming_perplexity(exec, *model, text, {.segment = 500, .step_rows = 1});
  const auto other = streaming_perplexity(again, *model, text, {.segment = 500, .step_rows = 64});
  ASSERT_EQ(segments.size(), 10u);
  const int64_t most = exec.kv().shape().most_pages(policy, 6000, 1);
  for (size_t s = 0; s < segments.size(); ++s) {
    EXPECT_EQ(segments[s].nll, other[s].nll) << s;
    EXPECT_LE(segments[s].pages, most);
    EXPECT_GE(segments[s].pages, most - 1) << "a window's two ends may share a page";
    EXPECT_EQ(segments[s].held_bytes, segments[s].pages * exec.kv().shape().page_bytes(0));
    // Random weights know nothing: about the same everywhere.
    EXPECT_NEAR(segments[s].nll, segments[0].nll, 1.5) << s;
  }
  EXPECT_LT(segments.back().resident_bytes - segments.front().resident_bytes, 4 << 20);
}

TEST(Streaming, RefusesWhatItCannotScore) {
  const auto model = small_model();
  ServeExec exec(*model, with_policy({}, 0));
  EXPECT_THROW(streaming_perplexity(exec, *model, text_of(1), {}), Error);
  EXPECT_THROW(streaming_perplexity(exec, *model, text_of(kContext + 1), {}), Error);
  EXPECT_EQ(streaming_perplexity(exec, *model, text_of(1), {.first_token = 5}).size(), 1u);
}

}  // namespace
}  // namespace strata
