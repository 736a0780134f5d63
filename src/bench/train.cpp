#include "bench/train.h"

#include "bench/timing.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/trainer.h"

namespace strata {
namespace {

// As many characters as Tiny Shakespeare has, [UNK] being one more.
constexpr int kCharacters = 65;

std::string characters() {
  std::string all;
  for (int i = 0; i < kCharacters; ++i) all += static_cast<char>('0' + i);
  return all;
}

TokenData random_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % kCharacters));
  }
  return TokenData::of(std::move(tokens), count);
}

}  // namespace

Measurement measure_train(const TrainCase& c, int repeats) {
  TrainerOptions options;
  options.config = preset(c.preset);
  if (c.batch > 0) options.config.batch = c.batch;
  if (c.context > 0) options.config.context = c.context;
  options.config.accumulation = 1;
  options.config.dropout = c.dropout;
  options.config.optimizer = c.optimizer;
  options.threads = c.threads;
  check_config(options.config, {});
  const std::string json = character_tokenizer_json(characters());
  const auto tokenizer = tokenizer_from_json({"bench", json, {}, {}, {}});
  Trainer trainer(options, random_tokens(64 * options.config.context), *tokenizer, json);
  const TrainCost cost = trainer.cost();
  Measurement m;
  m.what = "train";
  m.params["preset"] = c.preset;
  m.params["batch"] = options.config.batch;
  m.params["context"] = options.config.context;
  m.params["dropout"] = c.dropout;
  m.params["optimizer"] = c.optimizer;
  m.params["parameters"] = cost.parameters;
  m.params["memory_bytes"] = cost.total_bytes();
  m.unit = "tokens/s";
  const auto tokens = static_cast<double>(cost.tokens_per_step);
  for (int r = -1; r < repeats; ++r) {
    const double begin = now_seconds();
    trainer.step_once();
    if (r >= 0) m.values.push_back(tokens / (now_seconds() - begin));
  }
  m.work.add_product(TensorType::f32, cost.flops_per_token * tokens);
  m.units = tokens;
  return m;
}

}  // namespace strata
