#include "bench/train.h"

#include "bench/timing.h"
#include "text/tokenizer_json.h"
#include "train/character_tokenizer.h"
#include "train/trainer.h"

namespace strata {
namespace {

// A tokenizer of so many tokens: characters, and [UNK].
std::string tokenizer_json(int64_t vocabulary) {
  std::vector<char32_t> characters;
  for (int64_t i = 0; i + 1 < vocabulary; ++i) characters.push_back(static_cast<char32_t>('0' + i));
  return character_tokenizer_json(characters);
}

TokenData random_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocabulary)));
  }
  return TokenData::of(std::move(tokens), count);
}

}  // namespace

Measurement measure_train(const TrainCase& c, int repeats) {
  TrainerOptions options;
  options.config = c.config;
  options.threads = c.threads;
  const std::string json = tokenizer_json(c.vocabulary);
  const auto tokenizer = tokenizer_from_json({"bench", json, {}, {}, {}});
  Trainer trainer(options, random_tokens(64 * c.config.context, c.vocabulary), *tokenizer, json);
  const TrainCost cost = trainer.cost();
  Measurement m;
  m.what = "train";
  m.params["batch"] = c.config.batch;
  m.params["context"] = c.config.context;
  m.params["vocabulary"] = c.vocabulary;
  m.params["positions"] = c.config.positions;
  m.params["gated"] = c.config.gated;
  m.params["dropout"] = c.config.dropout;
  m.params["optimizer"] = c.config.optimizer;
  m.params["dtype"] = c.config.dtype;
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
