#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/roofline.h"
#include "bench/work.h"

namespace strata {

// The repeats of one thing measured, before the limits are known for good.
struct Measurement {
  std::string what;                            // "prefill", "batch_decode", "gemm"
  std::string model;                           // a name; empty: of no model
  OrderedJson params = OrderedJson::object();  // sizes, by name
  std::string unit;                            // "tokens/s", "GOP/s", "s"
  std::vector<double> values;                  // one per repeat, in `unit`
  // What one unit of the value costs at least. Of a rate: limit = units / seconds of the work; of a
  // time (unit "s"): limit = seconds of the work.
  Work work;
  double units = 1;
};

struct BenchResult {
  std::string what, model;
  OrderedJson params = OrderedJson::object();
  double value = 0;  // median of the repeats
  std::string unit;
  double spread = 0;    // median absolute deviation, in `unit`
  double of_limit = 0;  // share of the limit that binds, 0..1
};

BenchResult finish(const Measurement& measurement, const MachineLimits& limits);

// What `strata bench` prints. All results are of one ISA level and one configuration.
struct BenchReport {
  std::string isa;
  int threads = 0;
  std::string config_hash;
  MachineLimits limits;
  std::vector<BenchResult> results;
  OrderedJson details = {};  // what a subject says beside its results; null: nothing
};

// {"isa","threads","config_hash","limits":{..},"results":[{"what","model","params","value","unit",
// "spread","of_limit"}]}, and "details" where there are any.
std::string report_json(const BenchReport& report);
// A table, the ISA level beside every figure, and the limits below it.
std::string report_text(const BenchReport& report);
// The shares of the limits as bars. Throws as write_png (report/bar_chart.h).
void report_png(const BenchReport& report, const std::filesystem::path& path);

}  // namespace strata
