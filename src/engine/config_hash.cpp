#include "engine/config_hash.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/build_id.h"
#include "base/sha256.h"

namespace strata {

RunConfig this_run(std::string model_hash, KvType kv_type, Activations activations,
                   int page_tokens) {
  RunConfig config;
  config.build_id = build_id();
  config.isa = isa_level();
  config.model_hash = std::move(model_hash);
  config.kv_type = kv_type;
  if (activations != Activations::int8) config.flags["activations"] = activations_name(activations);
  if (page_tokens != kDefaultPageTokens) config.flags["page-size"] = std::to_string(page_tokens);
  return config;
}

std::string config_hash(const RunConfig& config) {
  std::string text =
      fmt::format("strata config 1\nbuild={}\nisa={}\nmodel={}\nkv-type={}\n", config.build_id,
                  isa_level_name(config.isa), config.model_hash, kv_type_name(config.kv_type));
  // The length goes first: a value may hold a newline.
  for (const auto& [name, value] : config.flags)
    text += fmt::format("{}={}:{}\n", name, value.size(), value);
  return sha256_hex(text);
}

}  // namespace strata
