#pragma once

#include <string>

#include "cli/command.h"

namespace strata::cli {

// What the user is told about a command line that is wrong: the command it was meant for, what is
// wrong (what was got, what was wanted) and where the way out stands. One or more whole lines.
std::string usage_error(const CLI::App& program, const CLI::Error& error);

}  // namespace strata::cli
