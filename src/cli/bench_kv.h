#pragma once

#include "cli/command.h"

namespace strata::cli {

// `strata bench kv`: what a cache of keys and values buys and costs.
void add_bench_kv(CLI::App& bench, Run& run);

}  // namespace strata::cli
