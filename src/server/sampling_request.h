#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/fields.h"

namespace strata::server {

// What every generating endpoint asks, read from its body with the model's defaults filled in.
struct GenerationAsk {
  GenerationRequest base;  // all but the prompt
  bool seed_given = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool timings = false;
};

// Who asks: what the API key allows, and whose share the request is counted in.
struct Caller {
  double priority_cap = std::numeric_limits<double>::infinity();
  uint32_t key = 1;
};

// A request without a seed gets a random one.
GenerationAsk read_generation(const RequestFields& fields, const Engine& engine,
                              const Caller& caller);

// The fields that every generating endpoint and /v1/embeddings have in common.
void read_scheduling(const RequestFields& fields, const Engine& engine, const Caller& caller,
                     GenerationRequest& request);

}  // namespace strata::server
