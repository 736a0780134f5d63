#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/engine_run.h"
#include "bench/result.h"

namespace strata {

// Seconds from opening a model's file to an engine that takes requests, in this process. The file
// is in the page cache: the run that warms up has put it there.
Measurement measure_load(const std::string& model, const EngineRunOptions& options);

// Seconds from the start of a process of its own, `program run MODEL --prompt Hello --max-tokens
// 1`, to the first byte it writes: its first token. Throws Error{internal} when it fails.
Measurement measure_cold_start(const std::filesystem::path& program, const std::string& model,
                               const EngineRunOptions& options);

// Starts a program (argv[0] is its path; stdin /dev/null, stderr inherited) and waits for its end:
// seconds until the first byte of its stdout. Throws Error{internal} when it cannot be started,
// writes nothing, or its exit status is not 0.
double seconds_to_first_byte(const std::vector<std::string>& argv);

// This program's own file.
std::filesystem::path own_program();

}  // namespace strata
