#include "engine/logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/cpu.h"
#include "kernels/kernel_table.h"

namespace strata {
namespace {

const RowKernels& kernels() { return *kernel_table(isa_level()).rows; }

}  // namespace

float max_logit(std::span<const float> logits) {
  return kernels().max_value(logits.data(), static_cast<int64_t>(logits.size()));
}

int64_t find_broken_logit(std::span<const float> logits) {
  constexpr size_t kLanes = 16;  // looked at together, as vectors
  const auto is_broken = [](float x) { return !(x < std::numeric_limits<float>::infinity()); };
  std::array<uint32_t, kLanes> broken = {};
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) broken[j] |= uint32_t{is_broken(logits[i + j])};
  const bool any = std::any_of(broken.begin(), broken.end(), [](uint32_t b) { return b != 0; });
  const auto from = logits.begin() + static_cast<std::ptrdiff_t>(any ? 0 : whole);
  const auto it = std::find_if(from, logits.end(), is_broken);
  return it == logits.end() ? -1 : it - logits.begin();
}

double sum_of_exp(std::span<const float> logits, float best, double temperature) {
  return kernels().sum_exp_f64(logits.data(), best, 1 / temperature,
                               static_cast<int64_t>(logits.size()));
}

TokenLogprob token_logprobs(std::span<const float> logits, TokenId chosen, int top) {
  const float best = max_logit(logits);
  const double log_total = std::log(sum_of_exp(logits, best, 1)) + double{best};
  TokenLogprob out;
  out.id = chosen;
  out.logprob = static_cast<float>(double{logits[static_cast<size_t>(chosen)]} - log_total);
  const auto size = static_cast<int64_t>(logits.size());
  const auto count = static_cast<int32_t>(std::clamp<int64_t>(top, 0, size));
  if (count == 0) return out;
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::vector<float> scratch(ids.size());
  kernel_table(isa_level())
      .train_rows->top_k(logits.data(), size, count, ids.data(), scratch.data());
  for (const TokenId id : ids)
    out.top.emplace_back(id,
                         static_cast<float>(double{logits[static_cast<size_t>(id)]} - log_total));
  return out;
}

}  // namespace strata
