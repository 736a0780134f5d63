#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/kv_policy.h"
#include "model/model.h"
#include "numeric/activations.h"
#include "numeric/kv_type.h"

namespace strata {

// What a cache of keys and values buys and costs, measured on the executor that serves. Tokens are
// random ones of a fixed seed.

struct KvRunOptions {
  int threads = 0;
  KvType kv_type = KvType::f16;
  int page_tokens = kDefaultPageTokens;
  Activations activations = Activations::int8;
  int repeats = 5;
  std::function<void()> check = {};  // called often; may throw to stop
};

// Whether generating with a cache gives what recomputing everything for each token gives.
struct KvEquality {
  int64_t tokens = 0;        // greedily generated behind a prompt
  int64_t equal_tokens = 0;  // of them
  int64_t equal_logits = 0;  // tokens whose logits are equal bit for bit
  double naive_seconds = 0, cached_seconds = 0;
};
KvEquality compare_with_recomputing(const Model& model, const KvRunOptions& options, int64_t prompt,
                                    int64_t tokens);

// One token behind `length` - 1 others.
struct KvPoint {
  int64_t length = 0;
  std::vector<double> seconds;  // one per repeat
  // What the sequence held with `length` tokens: as the allocator counts its pages, as the process
  // grew (in whole pages of the system, huge ones where it gives them), and by the formula 2 *
  // layers
  // * Hk * Dh * bytes for each token kept. The naive way holds nothing between two tokens.
  int64_t held_bytes = 0, resident_bytes = 0, formula_bytes = 0;
};

// The sequence grows from length to length; at each a token is timed `repeats` times, one behind
// the other. lengths: ascending.
std::vector<KvPoint> measure_cached(const Model& model, const KvRunOptions& options,
                                    const KvPolicy& policy, const std::vector<int64_t>& lengths);
// The whole sequence is read anew for the token, in steps of 512 rows: as fast as recomputing can
// be. Lengths above 2,048 are timed once.
std::vector<KvPoint> measure_naive(const Model& model, const KvRunOptions& options,
                                   const std::vector<int64_t>& lengths);

// Seconds of generating all tokens from 1 to the last point's length, each at the time of the
// points beside it, interpolated: an estimate, as nobody waits for the naive way to be run in full.
double estimate_total(const std::vector<KvPoint>& points);

}  // namespace strata
