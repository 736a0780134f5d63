#include "engine/serve_exec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/allocation_count_for_test.h"
#include "base/error.h"
#include "engine/fed_sequence_for_test.h"
#include "engine/random_model_for_test.h"
#include "model/transformer.h"

namespace strata {
namespace {

std::vector<RandomModelOptions> variants() {
  std::vector<RandomModelOptions> v(6);
  v[0].linear_type = TensorType::q4_1;
  v[0].rope = Rope::Layout::pairs;
  v[1].qkv_bias = true;
  v[1].tied_head = false;
  v[1].linear_type = TensorType::q4_0;
  v[2].qk_norm = v[2].post_norm = true;
  v[2].window = 40;
  v[2].activation = Activation::gelu_tanh;
  v[3].layer_norm = v[3].learned_positions = true;
  v[3].gated_mlp = false;
  v[3].kv_heads = 6;
  v[3].activation = Activation::gelu_tanh;
  v[4].linear_type = v[4].embedding_type = TensorType::f16;
  v[4].head_size = 10;
  v[4].hidden = 90;
  v[5].linear_type = TensorType::f32;
  v[5].head_size = 64;
  v[5].window = 17;
  return v;
}

// 64 sequences of mixed lengths give the same bits alone and in batches, with 1 and 2 threads,
// however their prompts are cut.
void expect_rows_depend_on_their_sequence(const RandomModelOptions& options, KvType type,
                                          uint32_t count) {
  const auto model = random_model(options);
  std::mt19937 random(options.seed);
  std::vector<FedSequence> sequences(count);
  std::vector<std::vector<float>> want;
  ServeExec single(*model, small(1, type)), both(*model, small(2, type));
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t length = i < 4 ? 150 + 40 * i : 1 + static_cast<int64_t>(random() % 40);
    sequences[i].tokens = random_tokens(length, options.vocabulary, i);
    want.push_back(alone(single, *model, sequences[i].tokens, {256}));
    if (i < 6) {
      EXPECT_EQ(alone(both, *model, sequences[i].tokens, {1}), want[i]) << "token by token";
      EXPECT_EQ(alone(both, *model, sequences[i].tokens, {7, 1, 64, 3}), want[i]);
    }
    sequences[i].cache = both.create_cache();
  }
  for (bool left = true; left;) {
    left = false;
    std::vector<FedSequence*> step;
    std::vector<int64_t> rows;
    for (FedSequence& s : sequences) {
      const int64_t rest = static_cast<int64_t>(s.tokens.size()) - s.done;
      if (rest == 0) continue;
      left = true;
      if (random() % 3 == 0) continue;
      step.push_back(&s);
      rows.push_back(
          std::min<int64_t>(rest, random() % 2 == 0 ? 1 : 1 + static_cast<int64_t>(random() % 60)));
    }
    if (!step.empty()) pass(both, *model, step, rows);
  }
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(sequences[i].logits, want[i]) << i;
}

// Promise 1.
TEST(ServeExec, RowsDependOnTheirSequenceAlone) {
  for (const RandomModelOptions& options : variants())
    expect_rows_depend_on_their_sequence(options, KvType::f16, 64);
}

TEST(ServeExec, RowsOfQuantizedCachesDependOnTheirSequenceAlone) {
  const std::vector<RandomModelOptions> all = variants();
  for (const size_t i : {1, 2, 4})  // key biases; a window and norms; an odd head size
    for (const KvType type : {KvType::q8, KvType::q4})
      expect_rows_depend_on_their_sequence(all[i], type, 8);
}

// What a quantised cache may cost, on random weights, whose attention is sharper than a model's: a
// key out of place or a bias counted twice costs far more.
TEST(ServeExec, QuantizedCachesKeepTheLogits) {
  for (const RandomModelOptions& options : variants()) {
    const auto model = random_model(options);
    const std::vector<int32_t> tokens = random_tokens(200, options.vocabulary, 3);
    const auto logits = [&](KvType type) {
      ServeExecOptions o = small(2, type);
      o.activations = Activations::int8x2;  // whose own rounding does not hide the cache's
      ServeExec ex(*model, o);
      return alone(ex, *model, tokens, {200});
    };
    const std::vector<float> exact = logits(KvType::f32);
    for (const auto& [type, most] : {std::pair(KvType::q8, 0.02), std::pair(KvType::q4, 0.2)}) {
      const std::vector<float> got = logits(type);
      double difference = 0, size = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        const double d = static_cast<double>(got[i]) - static_cast<double>(exact[i]);
        difference += d * d;
        size += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
      }
      EXPECT_LT(std::sqrt(difference / size), most) << kv_type_name(type);
      EXPECT_GT(difference, 0);
    }
  }
}

// The last block's work on rows that nobody reads is left out.
TEST(ServeExec, WantedRowsHaveTheBitsOfAllRows) {
  for (const RandomModelOptions& options : variants()) {
    const auto model = random_model(options);
    ServeExec ex(*model, small(2));
    const std::vector<int32_t> tokens = random_tokens(100, options.vocabulary, 7);
    const std::vector<float> whole = alone(ex, *model, tokens, {100});
    const auto width = static_cast<ptrdiff_t>(whole.size() / 100);
    std::vector<int32_t> positions(100);
    std::iota(positions.begin(), positions.end(), 0);
    const SequenceRows part{0, 100, 0, -1};
    const Batch batch{tokens, positions, {&part, 1}};
    for (const std::vector<int32_t>& rows : {std::vector<int32_t>{99}, {0, 17, 98}, {50, 3}}) {
      const Tensor hidden = forward_hidden(ex, model->transformer, batch, rows);
      ASSERT_EQ(hidden.rows, static_cast<int64_t>(rows.size()));
      std::vector<int32_t> all(rows.size());
      std::iota(all.begin(), all.end(), 0);
      const Tensor logits = forward_logits(ex, model->transformer, hidden, all);
      for (size_t i = 0; i < rows.size(); ++i) {
        const float* got = logits.row<float>(static_cast<int64_t>(i));
        EXPECT_TRUE(std::equal(got, got + width, whole.begin() + rows[i] * width)) << rows[i];
      }
    }
    EXPECT_EQ(forward_hidden(ex, model->transformer, batch, {}).rows, 0);
  }
}

TEST(ServeExec, LaterTokensNeverChangeEarlierLogits) {
  const auto model = random_model({});
  ServeExec ex(*model, small(2));
  std::vector<int32_t> tokens = random_tokens(100, 211, 5);
  const std::vector<float> want = alone(ex, *model, tokens, {100});
  for (size_t i = 60; i < 100; ++i) tokens[i] = (tokens[i] + 1) % 211;
  const std::vector<float> got = alone(ex, *model, tokens, {100});
  const ptrdiff_t same = 60 * 211;
  EXPECT_TRUE(std::equal(want.begin(), want.begin() + same, got.begin()));
  EXPECT_FALSE(std::equal(want.begin() + same, want.end(), got.begin() + same));
}

TEST(ServeExec, ASequenceWithoutACacheIsWhole) {
  const auto model = random_model({});
  ServeExec ex(*model, small(2));
  FedSequence s;
  s.tokens = random_tokens(70, 211, 6);
  pass(ex, *model, {&s}, {70});
  EXPECT_EQ(s.logits, alone(ex, *model, s.tokens, {13}));
  // Its pages return with the next pass.
  const int32_t cache = ex.create_cache();
  FedSequence next;
  next.tokens = {1};
  next.cache = cache;
  pass(ex, *model, {&next}, {1});
  EXPECT_EQ(ex.kv().used_pages(), 1);
}

TEST(ServeExec, WindowedGroupsHoldNoMoreThanTheWindow) {
  RandomModelOptions options;
  options.window = 48;
  const auto model = random_model(options);
  ServeExec ex(*model, small(1));
  const int32_t cache = ex.create_cache();
  FedSequence s;
  s.tokens = random_tokens(400, 211, 7);
  s.cache = cache;
  for (int i = 0; i < 400; ++i) pass(ex, *model, {&s}, {1});
  int held = 0;
  for (const int32_t page : ex.kv().page_table(cache, 1)) held += page >= 0;
  EXPECT_LE(held, 48 / 16 + 1);
}

TEST(ServeExec, ADecodeStepAllocatesNothing) {
  const auto model = random_model(variants()[2]);
  ServeExec ex(*model, small(2));
  const int32_t cache = ex.create_cache();
  ASSERT_TRUE(ex.reserve(cache, 400));
  std::vector<int32_t> token = {1}, position = {0}, row = {0};
  SequenceRows rows{0, 1, 0, cache};
  const auto step = [&] {
    forward_logits(ex, model->transformer,
                   forward_hidden(ex, model->transformer, {token, position, {&rows, 1}}), row);
    rows.first_position = ++position[0];
  };
  for (int i = 0; i < 320; ++i) step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 60; ++i) step();  // within the chunks seen: past 320 lies one chunk more
  EXPECT_EQ(allocation_count() - before, 0);
}

// How often all threads wait for each other in one step of decoding after 300 tokens.
uint32_t barriers_of_a_token(const RandomModelOptions& options, KvType type) {
  const auto model = random_model(options);
  ServeExec ex(*model, small(2, type));
  FedSequence s{random_tokens(301, options.vocabulary, 1), {}, ex.create_cache(), 0};
  pass(ex, *model, {&s}, {256});
  pass(ex, *model, {&s}, {44});
  const uint32_t before = ex.pool().barriers();
  pass(ex, *model, {&s}, {1});
  return ex.pool().barriers() - before;
}

// Of layers of a size that is worth more than one thread: those of SmolLM2 135M, and with the
// norms of Gemma.
TEST(ServeExec, ALayerOfADecodeStepHasAtMostFiveBarriers) {
  RandomModelOptions llama;
  llama.heads = 9;
  llama.kv_heads = 3;
  llama.head_size = 64;
  llama.hidden = 576;
  llama.mlp = 1536;
  llama.linear_type = TensorType::q4_0;
  RandomModelOptions gemma = llama;
  gemma.qk_norm = gemma.post_norm = true;
  gemma.activation = Activation::gelu_tanh;
  for (RandomModelOptions options : {llama, gemma})
    for (const KvType type : {KvType::f16, KvType::q8, KvType::q4}) {
      options.layers = 1;
      const uint32_t one = barriers_of_a_token(options, type);
      options.layers = 4;
      const uint32_t four = barriers_of_a_token(options, type);
      EXPECT_LE(four, one + 3 * 5);
      EXPECT_GE(four, one + 3 * 4) << "the threads share no work: this test shows nothing";
    }
}

TEST(ServeExec, RefusesBatchesThatDoNotFit) {
  const auto model = random_model({});
  ServeExecOptions options = small(1);
  options.context = 64;
  ServeExec ex(*model, options);
  EXPECT_EQ(ex.context_length(), 64);
  const auto code_of = [&](FedSequence s, int64_t rows) {
    try {
      pass(ex, *model, {&s}, {rows});
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of({random_tokens(65, 211, 1), {}, -1, 0}, 65), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({{211}, {}, -1, 0}, 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({{-1}, {}, -1, 0}, 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({{1}, {}, 77, 0}, 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({{1, 2, 3}, {}, ex.create_cache(), 2}, 1), ErrorCode::invalid_argument);
  FedSequence fine{{1, 2}, {}, ex.create_cache(), 0};
  pass(ex, *model, {&fine}, {2});
  EXPECT_EQ(fine.logits.size(), 2u * 211);
}

TEST(ServeExec, SaysWhenPagesAreMissing) {
  const auto model = random_model({});
  ServeExecOptions options = small(1);
  options.step_rows = 16;
  options.kv_memory = 4 * 3 * 2 * 32 * 2 * 2 * 16;  // 4 pages
  ServeExec ex(*model, options);
  EXPECT_EQ(ex.context_length(), 64);
  const int32_t a = ex.create_cache(), b = ex.create_cache();
  EXPECT_TRUE(ex.reserve(a, 40));
  EXPECT_FALSE(ex.reserve(b, 17));
  EXPECT_TRUE(ex.reserve(b, 16));
  FedSequence s{random_tokens(17, 211, 2), {}, b, 0};
  try {
    pass(ex, *model, {&s}, {17});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::resource_exhausted);
  }
  ex.release(b);
  FedSequence t{random_tokens(40, 211, 3), {}, a, 0};
  pass(ex, *model, {&t}, {40});
}

}  // namespace
}  // namespace strata
