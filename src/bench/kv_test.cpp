#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "bench/kv_report.h"
#include "bench/work.h"
#include "model/model.h"

namespace strata {
namespace {

TEST(KvRun, TheTotalIsInterpolated) {
  // 1 s a token up to length 10, then rising to 3 s at 20: 10 + 10 * 2.
  EXPECT_DOUBLE_EQ(estimate_total({{10, {1.0}}, {20, {3.0}}}), 30);
  EXPECT_DOUBLE_EQ(estimate_total({{10, {1.0, 5.0, 1.0}}}), 10) << "medians";
  EXPECT_EQ(estimate_total({}), 0);
}

// A model of 2 layers, 2 KV heads of 8, whose layers see everything: tests/golden/architectures.
TEST(KvRun, BytesAreThoseOfTheFormulaAndTheCacheGivesWhatRecomputingGives) {
  const auto model = load_model("tests/golden/architectures/llama");
  KvRunOptions options;
  options.threads = 1;
  options.repeats = 2;
  const KvEquality equality = compare_with_recomputing(*model, options, 20, 12);
  EXPECT_EQ(equality.tokens, 12);
  EXPECT_EQ(equality.equal_tokens, 12);
  EXPECT_EQ(equality.equal_logits, 12);

  constexpr int64_t kTokenBytes = 2 * 2 * 2 * 8 * 2;  // 2 * L * Hk * Dh * bytes of f16
  const std::vector<int64_t> lengths = {16, 100, 101, 400};
  const auto full = measure_cached(*model, options, {}, lengths);
  const auto window = measure_cached(*model, options, {.window = 48, .sinks = 4}, lengths);
  ASSERT_EQ(full.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(full[i].length, lengths[i]);
    EXPECT_EQ(full[i].seconds.size(), i == 1 ? 1u : 2u);
    EXPECT_EQ(full[i].formula_bytes, kTokenBytes * lengths[i]);
    // Whole pages, whose values are rounded up to 16 dimensions: (8 + 16) / (2 * 8) of the formula.
    EXPECT_EQ(full[i].held_bytes, (lengths[i] + 15) / 16 * 16 * kTokenBytes * 3 / 2);
    EXPECT_EQ(window[i].formula_bytes, kTokenBytes * std::min<int64_t>(lengths[i], 52));
    // The sinks' page and those that 48 positions touch.
    EXPECT_LE(window[i].held_bytes, (1 + 4) * 16 * kTokenBytes * 3 / 2);
  }
  EXPECT_EQ(measure_naive(*model, options, {5, 50}).size(), 2u);
}

TEST(KvReport, WritesWhatItSays) {
  KvReport report;
  report.model = "tiny";
  report.naive = {{10, {1.0}}, {20, {3.0}}};
  report.cached = {{10, {0.1}}, {20, {0.2}}};
  report.policies = {{{}, {{10, {0.1}, 160, 4096, 100}, {20, {0.2}, 320, 8192, 200}}},
                     {{16, 0}, {{10, {0.1}, 160, 4096, 100}, {20, {0.15}, 320, 4096, 160}}}};
  const OrderedJson details = kv_details(report);
  EXPECT_DOUBLE_EQ(details["estimate"]["naive_seconds"].get<double>(), 30);
  EXPECT_DOUBLE_EQ(details["estimate"]["cached_seconds"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(details["estimate"]["speed_up"].get<double>(), 12);
  EXPECT_EQ(details["memory"].size(), 4u);
  EXPECT_NE(kv_text(report).find("12 times as fast (estimated"), std::string::npos)
      << kv_text(report);

  const auto folder =
      std::filesystem::temp_directory_path() / ("strata_kv_" + std::to_string(getpid()));
  write_kv_report(folder, "{}", report);
  std::ifstream csv(folder / "profiling_data.csv");
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line.find("method,policy,length,"), 0u);
  int rows = 0;
  while (std::getline(csv, line)) ++rows;
  EXPECT_EQ(rows, 8);
  for (const char* name : {"kv_benchmark.json", "speed_comparison.png", "memory_growth.png",
                           "sliding_window_comparison.png"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace strata
