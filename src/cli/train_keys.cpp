#include "cli/train_keys.h"

#include <set>

namespace strata::cli {

void add_train_keys(CLI::App& command, TrainKeys& keys) {
  command.add_option("--preset", keys.preset, "the configuration other keys change")
      ->check(CLI::IsMember(preset_names()))
      ->capture_default_str();
  for (const ConfigKey& key : config_keys())
    command
        .add_option_function<std::string>(
            "--" + key.name,
            [&keys, name = key.name](const std::string& text) { keys.given[name] = text; },
            key.help)
        ->group("Configuration (defaults by preset)")
        ->type_name("VALUE");
}

TrainConfig train_config(const TrainKeys& keys, TrainConfig from) {
  std::set<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    const auto it = keys.given.find(key.name);
    if (it == keys.given.end()) continue;
    names.insert(key.name);
    key.set(from, it->second);
  }
  check_config(from, names);
  return from;
}

}  // namespace strata::cli
