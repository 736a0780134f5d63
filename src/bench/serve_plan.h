#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace strata {

// A request that a load test will send.
struct PlannedCall {
  double at_seconds = 0;  // after the start; closed loops do not look at it
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

// `count` calls of one size, apart by exponentially distributed times of mean 1 / `rate` seconds.
std::vector<PlannedCall> poisson_plan(int64_t count, double rate, int64_t prompt_tokens,
                                      int64_t output_tokens, uint64_t seed);

struct TraceOptions {
  double time_scale = 1;                     // 2: twice as fast
  double length_scale = 1;                   // tokens are divided by it, rounded up
  int64_t most_prompt = 0, most_output = 0;  // longer ones are clipped; 0: no limit
  int64_t first = 0;                         // rows left out at the beginning
  int64_t count = 0;                         // rows used; 0: all
};

// The calls of a trace in the form of the Azure LLM inference traces: a CSV file with the columns
// TIMESTAMP (YYYY-MM-DD hh:mm:ss.fraction), ContextTokens, GeneratedTokens; the first call is at 0.
// Rows are put in order of time. Throws Error{not_found} for no file, data_corrupt naming the line.
std::vector<PlannedCall> read_trace(const std::filesystem::path& path, const TraceOptions& options);

}  // namespace strata
