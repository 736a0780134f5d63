#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "train/train_config.h"

namespace strata::cli {

// A training configuration on the command line: a preset, and keys that change it, as text.
struct TrainKeys {
  std::string preset = "tiny";
  std::map<std::string, std::string> given;
};

// --preset and a flag for each key of a training configuration. `keys` lives as long as `command`.
void add_train_keys(CLI::App& command, TrainKeys& keys);

// `from` with the keys that were given. Throws Error{invalid_argument} for values that cannot be,
// and for keys that nothing reads as the others are set.
TrainConfig train_config(const TrainKeys& keys, TrainConfig from);

}  // namespace strata::cli
