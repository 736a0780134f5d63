#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "model/model.h"

namespace strata {

struct MemoryBudget {
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  int64_t context = 0;  // tokens: the option or the model's
};

// How much memory is free for this process: MemAvailable, less under a cgroup limit.
uint64_t available_memory();

// Decides the size of the KV pool and the context. kv_memory 0: a quarter of what is free after the
// weights, at most 4 GiB, and no more than max_running whole contexts need. Throws
// resource_exhausted, saying how much is missing and what would fit.
MemoryBudget plan_engine_memory(const Model& model, const EngineOptions& options);

}  // namespace strata
