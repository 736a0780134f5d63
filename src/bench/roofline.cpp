#include "bench/roofline.h"

#include <algorithm>
#include <atomic>
#include <latch>

#include "base/aligned.h"
#include "base/error.h"
#include "bench/timing.h"
#include "numeric/packed.h"

namespace strata {
namespace {

constexpr int64_t kReadUnit = 4096;
constexpr double kAgree = 0.99;

// Seconds from the first start to the last end of fn(index) on all threads. They start together:
// the limits are those of all cores at work at once.
double timed_together(ThreadPool& pool, FunctionRef<void(int)> fn) {
  const int threads = pool.threads();
  std::latch all_here(threads);
  std::vector<double> starts(static_cast<size_t>(threads)), ends(starts.size());
  pool.run([&](int index) {
    all_here.arrive_and_wait();
    starts[static_cast<size_t>(index)] = now_seconds();
    fn(index);
    ends[static_cast<size_t>(index)] = now_seconds();
  });
  return *std::max_element(ends.begin(), ends.end()) -
         *std::min_element(starts.begin(), starts.end());
}

// rate() until the best two agree, as ProbeOptions says.
template <typename Rate>
std::vector<double> collect(const ProbeOptions& options, Rate rate) {
  std::vector<double> rates, best;
  for (int window = 0; window < options.most_windows; ++window) {
    if (options.check) options.check();
    rates.push_back(rate());
    best = rates;
    std::sort(best.rbegin(), best.rend());
    if (window + 1 >= options.least_windows && best.size() > 1 && best[1] >= kAgree * best[0])
      break;
  }
  return rates;
}

std::vector<double> product_rates(ProbeFunction probe, ThreadPool& pool,
                                  const ProbeOptions& options) {
  std::atomic<int64_t> operations = 0;
  const auto seconds_of = [&](int64_t iterations) {
    operations = 0;
    return timed_together(pool, [&](int) { operations += probe(iterations); });
  };
  // Growing windows find the length and warm the cores up.
  int64_t iterations = 1000;
  double seconds = seconds_of(iterations);
  while (seconds < options.window_seconds / 4) {
    iterations *= 2;
    seconds = seconds_of(iterations);
  }
  const double stretch = std::max(1.0, options.window_seconds / seconds);
  iterations = static_cast<int64_t>(static_cast<double>(iterations) * stretch);
  return collect(options, [&] {
    const double window = seconds_of(iterations);
    return 1e-9 * static_cast<double>(operations.load()) / window;
  });
}

std::vector<double> read_rates(const OpContext& context, const ProbeOptions& options) {
  const int64_t bytes = std::max(options.read_bytes / kReadUnit, int64_t{1}) * kReadUnit;
  const AlignedBuffer memory(static_cast<size_t>(bytes), HugePages::advise);
  ThreadPool& pool = *context.pool;
  // Each thread touches first what it will read: memory lies near its reader.
  pool.run([&](int index) {
    const IndexRange part = split_range(bytes, kReadUnit, index, pool.threads());
    for (int64_t i = part.begin; i < part.end; i += 64)
      memory.as<uint8_t>()[i] = static_cast<uint8_t>(i / 64);
  });
  std::atomic<uint64_t> sink = 0;
  return collect(options, [&] {
    const double window = timed_together(pool, [&](int index) {
      const IndexRange part = split_range(bytes, kReadUnit, index, pool.threads());
      if (!part.empty())
        sink ^= context.kernels->probe->read(memory.as<const std::byte>() + part.begin,
                                             part.end - part.begin);
    });
    return 1e-9 * static_cast<double>(bytes) / window;
  });
}

double best_of(const std::vector<double>& rates) {
  return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
}

}  // namespace

double MachineLimits::product_gop_s(TensorType weights) const {
  // Four-bit codes, but their values come from a table and fill eight signed bits.
  if (weights == TensorType::iq4_nl || weights == TensorType::iq4_xs) return int8_s8_gop_s;
  switch (packed_shape(weights).codes) {
    case Codes::none:
      return fp32_gflop_s;
    case Codes::u2:
    case Codes::u3:
    case Codes::u4:
      return int8_u4_gop_s;
    case Codes::u5:
      return int8_u5_gop_s;
    case Codes::u6:
      return int8_u6_gop_s;
    case Codes::s8:
      return int8_s8_gop_s;
  }
  assertion_failed("known codes", __FILE__, __LINE__);
}

MachineLimits larger_of(const MachineLimits& a, const MachineLimits& b) {
  return {std::max(a.threads, b.threads),
          std::max(a.read_gb_s, b.read_gb_s),
          std::max(a.fp32_gflop_s, b.fp32_gflop_s),
          std::max(a.int8_u4_gop_s, b.int8_u4_gop_s),
          std::max(a.int8_u5_gop_s, b.int8_u5_gop_s),
          std::max(a.int8_u6_gop_s, b.int8_u6_gop_s),
          std::max(a.int8_s8_gop_s, b.int8_s8_gop_s)};
}

MachineLimits ProbeSamples::best() const {
  return {threads,          best_of(read),    best_of(fp32),   best_of(int8_u4),
          best_of(int8_u5), best_of(int8_u6), best_of(int8_s8)};
}

ProbeSamples probe_machine(const OpContext& context, const ProbeOptions& options) {
  const ProbeKernels& probe = *context.kernels->probe;
  ProbeSamples samples;
  samples.threads = context.pool->threads();
  samples.read = read_rates(context, options);
  const auto rates = [&](ProbeFunction product) {
    return product_rates(product, *context.pool, options);
  };
  samples.fp32 = rates(probe.fp32);
  samples.int8_u4 = rates(probe.int8_u4);
  samples.int8_u5 = rates(probe.int8_u5);
  samples.int8_u6 = rates(probe.int8_u6);
  samples.int8_s8 = rates(probe.int8_s8);
  return samples;
}

}  // namespace strata
