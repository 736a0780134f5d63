#pragma once

#include "cli/command.h"

namespace strata::cli {

// `strata bench train-ops`: the operations of a training step, each alone.
void add_bench_train_ops(CLI::App& bench, Run& run);

}  // namespace strata::cli
