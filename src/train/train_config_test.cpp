#include "train/train_config.h"

#include <gtest/gtest.h>

#include "support/error_message.h"

namespace strata {
namespace {

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
// not counted. Three matrices of 8/3 of the width have as many elements as two of 4.
TEST(TrainConfig, TheShakespearePresetHasNanoGptsSize) {
  const auto model = make_gpt(gpt_config(preset("shakespeare"), 65), 1);
  EXPECT_EQ(model->parameter_count, 10'646'784);
}

// The same with GPT-2's block: the table of positions, and biases in the norms.
TEST(TrainConfig, Gpt2sBlockOfTheSameSize) {
  TrainConfig c = preset("shakespeare");
  c.positions = "learned";
  c.norm = "layer";
  c.activation = "gelu";
  c.gated = false;
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

TEST(TrainConfig, ANoteSaysWhatBf16IsHere) {
  TrainConfig c;
  EXPECT_EQ(dtype_note(c, IsaLevel::avx2), "");
  c.dtype = "bf16";
  EXPECT_EQ(
      dtype_note(c, IsaLevel::avx2),
      "dtype bf16: weight matrices are rounded to bf16 after each step, but level avx2 has no "
      "bf16 products: they are computed in f32, so a step is no faster than with f32");
  EXPECT_EQ(dtype_note(c, IsaLevel::avx512_bf16), "");
  EXPECT_FALSE(only_reports(c, "dtype"));  // a run is resumed with the one it began with
}

TEST(TrainConfig, WhatDecidesTheEndOfARunIsNoReport) {
  TrainConfig c;
  EXPECT_TRUE(only_reports(c, "eval-every"));
  EXPECT_TRUE(only_reports(c, "norms-every"));
  EXPECT_FALSE(only_reports(c, "ema"));
  c.early_stop = 3;
  EXPECT_FALSE(only_reports(c, "eval-every"));
  c.validation_share = 0;
  EXPECT_EQ(message([&] { check_config(c, {}); }),
            "train: early-stop needs a validation text; validation-share is 0");
}

}  // namespace
}  // namespace strata
