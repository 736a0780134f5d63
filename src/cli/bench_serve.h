#pragma once

#include "cli/command.h"

namespace strata::cli {

// `strata bench serve`: a client that puts load on a server.
void add_bench_serve(CLI::App& bench, Run& run);

}  // namespace strata::cli
