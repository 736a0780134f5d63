#include "bench/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

using ::testing::HasSubstr;

const MachineLimits kLimits = {2, 10, 100, 400, 500, 600, 800};

Measurement decode() {
  Measurement m;
  m.what = "decode";
  m.model = "tiny";
  m.params = {{"context", 1}, {"tokens", 4}};
  m.unit = "tokens/s";
  m.values = {18, 20, 26};
  // Four tokens of 100 MB each: 40 ms at 10 GB/s, 100 tokens/s at best.
  m.work.read_bytes = 4e8;
  m.units = 4;
  return m;
}

TEST(Finish, ARateIsComparedWithTheRateOfItsLimit) {
  const BenchResult r = finish(decode(), kLimits);
  EXPECT_EQ(r.value, 20);
  EXPECT_EQ(r.spread, 2);
  EXPECT_DOUBLE_EQ(r.of_limit, 0.2);
}

TEST(Finish, ATimeIsComparedWithTheTimeOfItsLimit) {
  Measurement m = decode();
  m.unit = "s";
  m.values = {0.16};
  EXPECT_DOUBLE_EQ(finish(m, kLimits).of_limit, 0.25);
}

BenchReport report() {
  BenchReport report;
  report.isa = "avx2";
  report.threads = 2;
  report.config_hash = "ab12";
  report.limits = kLimits;
  report.results = {finish(decode(), kLimits)};
  report.results.push_back(report.results[0]);
  report.results[1].model = "";
  return report;
}

// The shape that tools read; the 8-bit yardstick is the 5-bit range's.
TEST(Report, JsonHasThisShape) {
  EXPECT_EQ(report_json(report()),
            R"({"isa":"avx2","threads":2,"config_hash":"ab12",)"
            R"("limits":{"read_gb_s":10.0,"fp32_gflop_s":100.0,"int8_gop_s":500.0},"results":[)"
            R"({"what":"decode","model":"tiny","params":{"context":1,"tokens":4},"value":20.0,)"
            R"("unit":"tokens/s","spread":2.0,"of_limit":0.2},)"
            R"({"what":"decode","model":null,"params":{"context":1,"tokens":4},"value":20.0,)"
            R"("unit":"tokens/s","spread":2.0,"of_limit":0.2}]})");
}

TEST(Report, TextHasTheLevelBesideEachFigure) {
  const std::string text = report_text(report());
  EXPECT_THAT(text, HasSubstr("decode  tiny   context=1 tokens=4   20.00  2.000  tokens/s    20.0 %"
                              "  avx2\n"));
  EXPECT_THAT(text, HasSubstr("config_hash ab12"));
  EXPECT_THAT(text, HasSubstr("median absolute deviation"));
}

}  // namespace
}  // namespace strata
