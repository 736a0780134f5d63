#pragma once

#include <map>
#include <string>

#include "base/cpu.h"
#include "numeric/activations.h"
#include "numeric/kv_type.h"

namespace strata {

// Everything that results and speed depend on, threads aside. Figures of speed and of quality that
// carry the same hash come from one binary in one configuration.
struct RunConfig {
  std::string build_id;  // base/build_id.h
  IsaLevel isa = IsaLevel::scalar;
  std::string model_hash;  // Model::hash; empty: no model
  KvType kv_type = KvType::f16;
  // Flags in force that change what is computed or how, by name without dashes: only those that
  // differ from their defaults. Neither threads nor the sizes a measurement asks for.
  std::map<std::string, std::string> flags = {};
};

// What this process runs with, no other flag set.
RunConfig this_run(std::string model_hash, KvType kv_type,
                   Activations activations = Activations::int8,
                   int page_tokens = kDefaultPageTokens);

// 64 hexadecimal digits: sha256 of a text with one `key=value` a line.
std::string config_hash(const RunConfig& config);

}  // namespace strata
