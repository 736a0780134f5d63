#pragma once

#include <cstdint>
#include <functional>

#include "bench/result.h"
#include "numeric/kv_type.h"
#include "ops/context.h"

namespace strata {

// Causal attention of one layer over a paged cache, as serving does it.
struct AttentionCase {
  int heads = 8;
  int kv_heads = 8;
  int head_size = 64;
  int64_t context = 4096;  // T: keys the last query sees
  int64_t queries = 4096;  // the last ones of the context: T for a prompt, 1 for a decode step
  KvType kv_type = KvType::f32;
  int page_tokens = kDefaultPageTokens;
};

// Throws Error{invalid_argument} for heads that are no multiple of the KV heads, or for more
// queries than the context has tokens.
void check_case(const AttentionCase& c);

// GFLOP/s, of 4 * Dh floating-point operations for each query, head and visible key (for a whole
// prompt: 2 T T Dh H). The queries' keys and values are stored in the same call. With fewer than 64
// queries the cache is copied until processor caches cannot hold it, as in a model of many layers.
Measurement measure_attention(const AttentionCase& c, const OpContext& context, int repeats,
                              const std::function<void()>& check = {});

}  // namespace strata
