#pragma once

#include <cstdint>
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

// `priority_cap`: of the API key. A request without a seed gets a random one.
GenerationAsk read_generation(const RequestFields& fields, const Engine& engine,
                              double priority_cap);

}  // namespace strata::server
