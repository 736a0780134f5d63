#include "ops/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace strata {
namespace {

constexpr int64_t kGrain = 8192;        // elements of an update worth another thread
constexpr int64_t kSumBlock = 4096;     // elements summed by one thread at a time
constexpr int64_t kBlocksAtOnce = 512;  // partial sums kept on the stack

}  // namespace

void adamw(const AdamWTensor& t, const AdamWOptions& o, const OpContext& context) {
  const size_t n = t.parameter.size();
  const auto check = [&](const char* operand, size_t size) {
    if (size != n)
      fail(ErrorCode::invalid_argument, "adamw: {} has {} elements, the parameter {}", operand,
           size, n);
  };
  check("gradient", t.gradient.size());
  check("mean", t.mean.size());
  check("square", t.square.size());
  if (o.step < 1) fail(ErrorCode::invalid_argument, "adamw: step is {}, wanted 1 or more", o.step);
  const auto step = static_cast<double>(o.step);
  TrainRowKernels::AdamW c{};
  c.beta1 = o.beta1;
  c.beta2 = o.beta2;
  c.epsilon = o.epsilon;
  c.decay = o.learning_rate * o.weight_decay;
  c.step = static_cast<float>(double{o.learning_rate} / (1 - std::pow(double{o.beta1}, step)));
  c.root = static_cast<float>(1 / std::sqrt(1 - std::pow(double{o.beta2}, step)));
  c.gradient_factor = o.gradient_factor;
  const auto kernel = context.kernels->train_rows->adamw;
  context.pool->parallel_for(static_cast<int64_t>(n), kGrain, [&](int64_t begin, int64_t end) {
    kernel(c, t.gradient.data() + begin, end - begin, t.parameter.data() + begin,
           t.mean.data() + begin, t.square.data() + begin);
  });
}

double sum_of_squares(std::span<const std::span<const float>> tensors, const OpContext& context) {
  const auto kernel = context.kernels->train_rows->sum_of_squares;
  double total = 0;
  for (const std::span<const float> tensor : tensors) {
    const auto n = static_cast<int64_t>(tensor.size());
    double sum = 0;
    for (int64_t first = 0; first < n; first += kSumBlock * kBlocksAtOnce) {
      const int64_t count = std::min(kSumBlock * kBlocksAtOnce, n - first);
      const int64_t blocks = (count + kSumBlock - 1) / kSumBlock;
      std::array<double, kBlocksAtOnce> parts;
      context.pool->parallel_for(blocks, 8, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          parts[static_cast<size_t>(b)] = kernel(tensor.data() + first + b * kSumBlock,
                                                 std::min(kSumBlock, count - b * kSumBlock));
      });
      for (int64_t b = 0; b < blocks; ++b) sum += parts[static_cast<size_t>(b)];
    }
    total += sum;
  }
  return total;
}

float clip_factor(double norm, double limit) {
  if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
  return limit > 0 && norm > limit ? static_cast<float>(limit / norm) : 1.0f;
}

}  // namespace strata
