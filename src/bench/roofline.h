#pragma once

#include <cstdint>

#include "ops/context.h"

namespace strata {

// What this machine can do at most with the pool's threads and the table's
// level: the best of several runs, everything but the named unit idle.
struct MachineLimits {
  int threads = 0;
  double read_gb_s = 0;     // memory read once, in order
  double fp32_gflop_s = 0;  // multiply-adds in registers
  // Int8 products in registers, by the range of the weights' codes
  // (kernels/probe.h). Reports that give one figure give u5's: four products
  // added in 16 bits, the yardstick of docs and design.
  double int8_u4_gop_s = 0;
  double int8_u5_gop_s = 0;
  double int8_u6_gop_s = 0;
  double int8_s8_gop_s = 0;
  double int8_gop_s() const { return int8_u5_gop_s; }
};

// Takes about a second. Reads `read_bytes` of fresh memory, which must exceed
// the caches; throws Error{resource_exhausted} when there is not as much.
MachineLimits measure_limits(const OpContext& context, int64_t read_bytes = int64_t{1} << 30);

}  // namespace strata
