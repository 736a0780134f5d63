#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace strata::cli {

// Lets every option of `command` also be set by an environment variable, STRATA_ and the option's
// name in capitals, and adds --config FILE, a TOML file with the options' names as keys.
void add_environment_and_config(CLI::App& command);

// Replaces `--config FILE` among a program's arguments by the options of the file, except those
// that the command line or the environment sets: they win, in that order. Throws
// Error{invalid_argument} naming file and line for a key that is no option of the command.
std::vector<std::string> with_config_file(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace strata::cli
