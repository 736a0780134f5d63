#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace strata {

// One way of running the watched requests, compared with each of them alone.
struct DeterminismRow {
  std::string what;                                // "among others", "preempted", ...
  std::string how;                                 // the setting: threads, rows of a step, pages
  int64_t requests = 0, tokens = 0, logprobs = 0;  // compared, bit for bit
  int64_t preemptions = 0, cached_tokens = 0;      // that happened on the way
  int64_t swaps = 0;                               // of the preemptions: by the swap space
  std::string difference;                          // the first one; empty: none
};

struct DeterminismReport {
  std::string model, model_hash, isa;
  KvType kv_type = KvType::f16;
  int threads = 0;  // of the run everything is compared with
  std::vector<DeterminismRow> rows;

  bool equal() const;
};

struct DeterminismOptions {
  int others = 63;  // requests that run beside the compared ones, 1..1000
  std::function<void(const std::string&)> progress;  // what is being run; may be empty
  std::function<void()> check;                       // throws to stop; may be empty
};

// Checks promise 1 on this model and machine: a handful of requests, greedy and seeded, with
// penalties, logprobs and several choices, are answered alone, among others, with 1, 2 and 3
// threads, with other page sizes, from the prefix cache, with their prompts cut into chunks of
// several sizes, and preempted, computed again or swapped; ids, texts and the bits of logprobs must
// be the same every time, and the text of the stream's pieces that of the ids. `engine`: threads,
// kv_type, activations as the model is served. Throws Error{invalid_argument} for a model whose
// context is below 256 tokens.
DeterminismReport verify_determinism(const std::string& model, const EngineOptions& engine,
                                     const DeterminismOptions& options);

}  // namespace strata
