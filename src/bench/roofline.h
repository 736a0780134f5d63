#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "numeric/tensor_type.h"
#include "ops/context.h"

namespace strata {

// What this machine can do at most with the pool's threads and the table's level: the best of
// several runs, everything but the named unit idle.
struct MachineLimits {
  int threads = 0;
  double read_gb_s = 0;     // memory read once, in order
  double fp32_gflop_s = 0;  // multiply-adds in registers
  // Int8 products in registers, by the range of the weights' codes (kernels/probe.h). Reports that
  // give one figure give u5's: four products added in 16 bits, the yardstick of docs and design.
  double int8_u4_gop_s = 0;
  double int8_u5_gop_s = 0;
  double int8_u6_gop_s = 0;
  double int8_s8_gop_s = 0;
  double int8_gop_s() const { return int8_u5_gop_s; }
  // The limit of products with weights of this type: by the range of its codes, fp32 for floats.
  double product_gop_s(TensorType weights) const;
};

// Each limit the larger of both: a limit measured on a machine that was busy is no limit.
MachineLimits larger_of(const MachineLimits& a, const MachineLimits& b);

struct ProbeOptions {
  int64_t read_bytes = int64_t{1} << 30;  // of fresh memory; must exceed the caches
  // Long enough for the cores to reach their working frequency and for the start of the threads not
  // to count.
  double window_seconds = 0.1;
  // Windows until the best two agree within 1 %, but no more than the second number.
  int least_windows = 3, most_windows = 10;
  std::function<void()> check = {};  // called between windows; may throw to stop
};

// Rates of each window, in the unit of MachineLimits, in the order they were measured.
struct ProbeSamples {
  int threads = 0;
  std::vector<double> read, fp32, int8_u4, int8_u5, int8_u6, int8_s8;
  MachineLimits best() const;
};

// 2 to 6 seconds with the default options. Throws Error{resource_exhausted} when there are no
// read_bytes of memory.
ProbeSamples probe_machine(const OpContext& context, const ProbeOptions& options = {});

}  // namespace strata
