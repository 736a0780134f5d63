#include "train/train_config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/token_data.h"

namespace strata {
namespace {

template <typename Fn>
std::string message(Fn fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(TrainConfig, EveryKeyReadsWhatItWrites) {
  const TrainConfig from = preset("shakespeare");
  TrainConfig to;
  for (const ConfigKey& key : config_keys()) {
    key.set(to, key.get(from));
    EXPECT_EQ(key.get(to), key.get(from)) << key.name;
  }
  EXPECT_EQ(gpt_config(to, 10).hidden, 384);
}

// nanoGPT prints 10.65M for its character model: 65 characters, no biases, the table of positions
// not counted. Its LayerNorms then have no bias either; ours have (13 x 384).
TEST(TrainConfig, TheShakespearePresetHasNanoGptsSize) {
  TrainConfig c = preset("shakespeare");
  c.bias = false;
  const auto model = make_gpt(gpt_config(c, 65), 1);
  EXPECT_EQ(model->parameter_count - 256 * 384 - 13 * 384, 10'646'784);
}

TEST(TrainConfig, WhatCannotBeOrIsNotReadIsRefused) {
  TrainConfig c;
  const auto set = [&](const char* name, const std::string& text) {
    for (const ConfigKey& key : config_keys())
      if (key.name == name) key.set(c, text);
  };
  EXPECT_EQ(message([&] { set("steps", "many"); }), "train: steps is 'many', wanted an integer");
  EXPECT_EQ(message([&] { set("lr", "nan"); }), "train: lr is 'nan', wanted a number");
  EXPECT_EQ(message([&] { set("gated", "1"); }), "train: gated is '1', wanted true or false");
  EXPECT_EQ(message([&] { set("optimizer", "adam"); }),
            "train: optimizer is 'adam', wanted one of adamw, sgd, lion, muon");
  EXPECT_EQ(message([&] { check_config(c, {"momentum"}); }),
            "train: momentum has no effect with optimizer adamw");
  EXPECT_EQ(message([&] { check_config(c, {"rope-base"}); }),
            "train: rope-base has no effect with positions learned");
  EXPECT_EQ(message([&] { check_config(c, {}); }), "no error");
  c.dropout = 1;
  EXPECT_EQ(message([&] { check_config(c, {}); }), "train: dropout must be 0 to below 1");
  EXPECT_EQ(message([&] { preset("big"); }),
            "train: preset is 'big', wanted one of tiny, shakespeare-cpu, shakespeare, gpt2-124m");
  c = {};
  c.hidden = 30;
  EXPECT_EQ(message([&] { make_gpt(gpt_config(c, 5), 1); }),
            "train: hidden = 30 is no multiple of heads = 4");
}

// ---- data
// ----------------------------------------------------------------------------------------

std::unique_ptr<Tokenizer> character_tokenizer(const std::string& text) {
  return tokenizer_from_json({"test", character_tokenizer_json(text), {}, {}, {}});
}

TEST(CharacterTokenizer, OneTokenACharacterInOrderOfCodePoints) {
  const std::string text = "b\na é🙂b";
  const auto tokenizer = character_tokenizer(text);
  EXPECT_EQ(tokenizer->vocabulary_size(), 7);  // \n, blank, a, b, e acute, smile, [UNK]
  const std::vector<int32_t> ids = tokenizer->encode(text, {ControlText::as_text, false});
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 0, 2, 1, 4, 5, 3}));
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(message([] { character_tokenizer_json("ab\xff"); }),
            "characters: byte 2 of the text is no UTF-8");
}

TEST(TokenData, TheLastPartIsForValidationAndScoredWhole) {
  const std::string text = "abcdefghijklmnopqrstuvwxyzabcdefghijklmn";  // 40
  const auto tokenizer = character_tokenizer(text);
  const TokenData data = make_token_data(text, *tokenizer, 0.25, 4);
  EXPECT_EQ(data.train.size(), 30u);
  EXPECT_EQ(data.validation.size(), 10u);
  EXPECT_EQ(whole_windows(data.validation, 4), 3);
  TokenBatch batch;
  for (int i = 0; i < 3; ++i) add_whole_window(data.validation, 4, i, batch);
  ASSERT_EQ(batch.size(), 9);  // all but the first are targets, once
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(batch.targets()[i], data.validation[static_cast<size_t>(i) + 1]) << i;
  EXPECT_EQ(batch.batch().sequences.back().rows, 1);
}

TEST(TokenData, WindowsDependOnSeedAndNumberAlone) {
  const std::vector<int32_t> tokens = [] {
    std::vector<int32_t> t(1000);
    for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<int32_t>(i);
    return t;
  }();
  TokenBatch a, b, c;
  draw_windows(tokens, 8, 5, 7, 3, a);
  draw_windows(tokens, 8, 5, 7, 4, b);
  draw_windows(tokens, 8, 5, 7, 3, c);
  const auto first = [](const TokenBatch& batch) {
    return std::vector<int32_t>(batch.batch().tokens.begin(), batch.batch().tokens.end());
  };
  EXPECT_EQ(first(a), first(c));
  EXPECT_NE(first(a), first(b));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(a.targets()[i], first(a)[static_cast<size_t>(i)] + 1);
  // Both ends are drawn.
  int32_t least = 1000, most = 0;
  for (int i = 0; i < 3000; ++i) {
    draw_windows(tokens, 8, 1, 7, i, a);
    least = std::min(least, first(a)[0]);
    most = std::max(most, a.targets()[7]);
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 999);
}

TEST(TokenData, BadTextsAreNamed) {
  const auto tokenizer = character_tokenizer("abc");
  EXPECT_EQ(message([&] { make_token_data("abcabcabxab", *tokenizer, 0.1, 4); }),
            "train: the character 'x' at byte 8 is not in the tokenizer's vocabulary; use a "
            "tokenizer made from this text");
  EXPECT_EQ(message([&] { make_token_data("abcab", *tokenizer, 0.1, 4); }),
            "train: the training text has 4 tokens, wanted at least 5 (context 4); give more text "
            "or a smaller context");
  EXPECT_EQ(message([&] { read_training_text("no/such/file.txt"); }),
            "train: no/such/file.txt: cannot be read");
}

}  // namespace
}  // namespace strata
