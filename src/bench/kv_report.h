#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/kv_run.h"
#include "bench/result.h"

namespace strata {

// What `strata bench kv` measured.
struct KvReport {
  std::string model;
  KvType kv_type = KvType::f16;
  KvEquality equality;
  std::vector<KvPoint> naive, cached;  // at the same lengths
  struct OfPolicy {
    KvPolicy policy;
    std::vector<KvPoint> points;
  };
  std::vector<OfPolicy> policies;  // the full cache first, all at the same lengths
};

// Times of one token: kv_naive, kv_cached and kv_policy, in seconds.
std::vector<Measurement> kv_measurements(const KvReport& report, const Model& model);
// {"equality","estimate":{..,"estimated":true},"memory":[{"policy","length","held_bytes",
// "resident_bytes","formula_bytes"}]}
OrderedJson kv_details(const KvReport& report);
// What a table of times does not say.
std::string kv_text(const KvReport& report);

// kv_benchmark.json (`json`), profiling_data.csv (a row a point), speed_comparison.png,
// memory_growth.png and sliding_window_comparison.png into a folder, which is made. Throws Error
// naming the file.
void write_kv_report(const std::filesystem::path& folder, const std::string& json,
                     const KvReport& report);

}  // namespace strata
