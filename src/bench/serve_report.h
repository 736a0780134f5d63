#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/serve_client.h"

namespace strata {

// What a call has to keep to count as good.
struct ServeLimits {
  double ttft_seconds = 2;   // sent to first text
  double gap_seconds = 0.2;  // the largest time between two pieces of text
};

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, most = 0;  // NaN: nothing to measure
};

// What a load test comes to. Calls with an error count in `errors` and in no time.
struct ServeSummary {
  int64_t calls = 0, completed = 0, good = 0;
  std::map<std::string, int64_t> errors;  // "429", "503", "no answer", ...
  double seconds = 0;                     // first call sent to last one ended
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of completed calls
  Percentiles ttft, gap, largest_gap, whole;                        // seconds
  double mean_running = 0;                                          // calls under way
};

ServeSummary summarize_calls(const std::vector<CallRecord>& calls, const ServeLimits& limits);

// {"calls","completed","good","errors":{..},"seconds","requests_per_second",
// "output_tokens_per_second","total_tokens_per_second","good_per_second","ttft_s":{"p50",..},..}
OrderedJson summary_json(const ServeSummary& summary, const ServeLimits& limits);
std::string summary_text(const ServeSummary& summary, const ServeLimits& limits);

// throughput_comparison.png: output tokens per second of several runs, in their order, beside the
// best; `summary` as summary_json() has it.
struct NamedSummary {
  std::string name;
  OrderedJson summary;
};
void write_comparison(const std::filesystem::path& path, const std::vector<NamedSummary>& runs);

// load_test_results.json (head + summary), calls.csv (one row a call), latency_cdf.png and
// throughput.png (output tokens per second, and calls under way, over time) into a folder, which is
// made. Throws Error naming the file.
void write_serve_report(const std::filesystem::path& folder, const OrderedJson& head,
                        const std::vector<PlannedCall>& plan, const std::vector<CallRecord>& calls,
                        const ServeLimits& limits);

}  // namespace strata
