#include "bench/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/aligned.h"

namespace strata {
namespace {

constexpr int kRuns = 5;
constexpr double kSecondsPerRun = 0.03;
constexpr int64_t kReadUnit = 4096;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double best_rate(ProbeFunction probe, ThreadPool& pool) {
  const auto rate_of = [&](int64_t iterations, double& seconds) {
    std::atomic<int64_t> operations = 0;
    const double start = seconds_now();
    pool.run([&](int) { operations += probe(iterations); });
    seconds = seconds_now() - start;
    return 1e-9 * static_cast<double>(operations.load()) / seconds;
  };
  int64_t iterations = 1000;
  double seconds = 0, best = 0;
  for (rate_of(iterations, seconds); seconds < kSecondsPerRun; rate_of(iterations, seconds))
    iterations *= 2;
  for (int run = 0; run < kRuns; ++run) best = std::max(best, rate_of(iterations, seconds));
  return best;
}

double best_read_rate(const OpContext& context, int64_t bytes) {
  const AlignedBuffer memory(static_cast<size_t>(bytes), HugePages::advise);
  // Each thread touches first what it will read: memory lies near its reader.
  context.pool->parallel_for(bytes, kReadUnit, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 64)
      memory.as<uint8_t>()[i] = static_cast<uint8_t>(i / 64);
  });
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double start = seconds_now();
    context.pool->parallel_for(bytes, kReadUnit, [&](int64_t begin, int64_t end) {
      sink ^= context.kernels->probe->read(memory.as<const std::byte>() + begin, end - begin);
    });
    best = std::max(best, 1e-9 * static_cast<double>(bytes) / (seconds_now() - start));
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(const OpContext& context, int64_t read_bytes) {
  const ProbeKernels& probe = *context.kernels->probe;
  MachineLimits limits;
  limits.threads = context.pool->threads();
  limits.read_gb_s =
      best_read_rate(context, std::max(read_bytes / kReadUnit, int64_t{1}) * kReadUnit);
  limits.fp32_gflop_s = best_rate(probe.fp32, *context.pool);
  limits.int8_u4_gop_s = best_rate(probe.int8_u4, *context.pool);
  limits.int8_u5_gop_s = best_rate(probe.int8_u5, *context.pool);
  limits.int8_u6_gop_s = best_rate(probe.int8_u6, *context.pool);
  limits.int8_s8_gop_s = best_rate(probe.int8_s8, *context.pool);
  return limits;
}

}  // namespace strata
