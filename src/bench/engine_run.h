#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/result.h"
#include "engine/engine.h"

namespace strata {

// Speeds of a model, measured on requests to an Engine: batches, steps and draws are the ones of
// serving. Prompts are random tokens from a fixed seed; answers go to their full length.

struct EngineRunOptions {
  int threads = 0;
  KvType kv_type = KvType::f16;
  int page_tokens = kDefaultPageTokens;
  Activations activations = Activations::int8;
  bool strict = false;
  int repeats = 5;                            // after one run that warms up
  std::function<void(double)> progress = {};  // share of loading done
  std::function<void()> check = {};           // called often; may throw to stop
};

// `tokens` token ids from a seed.
std::vector<TokenId> random_prompt(int64_t vocabulary, int64_t tokens, uint64_t seed);

// Loads `model` for requests of `tokens` tokens in all (0: as many as it takes), `streams` at once.
// Throws as Engine::load, and Error{invalid_argument} with both numbers for a shorter context.
std::unique_ptr<Engine> load_for_bench(const std::string& model, const EngineRunOptions& options,
                                       int64_t tokens, int streams);

// Tokens/s of reading a prompt, up to its first drawn token.
Measurement measure_prefill(Engine& engine, const EngineRunOptions& options, int64_t prompt);

// Tokens/s of one stream generating `tokens` tokens behind `context` (at least 1) others.
Measurement measure_decode(Engine& engine, const EngineRunOptions& options, int64_t context,
                           int64_t tokens);

// Tokens/s of `streams` streams together, while all of them generate `tokens` tokens behind
// `context` others: the reading of their prompts is not counted.
Measurement measure_batch(Engine& engine, const EngineRunOptions& options, int streams,
                          int64_t context, int64_t tokens);
// Tokens a stream of such a run may take in all; for load_for_bench.
int64_t batch_stream_tokens(int streams, int64_t context, int64_t tokens);

}  // namespace strata
