#include "engine/logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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
  const size_t count = std::min(static_cast<size_t>(std::max(top, 0)), logits.size());
  if (count == 0) return out;
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  // A heap of the best so far, the worst of them in front.
  std::vector<TokenId> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(i);
  std::make_heap(ids.begin(), ids.end(), better);
  for (size_t i = count; i < logits.size(); ++i) {
    if (!(logits[i] > logits[static_cast<size_t>(ids.front())])) continue;
    std::pop_heap(ids.begin(), ids.end(), better);
    ids.back() = static_cast<TokenId>(i);
    std::push_heap(ids.begin(), ids.end(), better);
  }
  std::sort_heap(ids.begin(), ids.end(), better);
  for (const TokenId id : ids)
    out.top.emplace_back(id,
                         static_cast<float>(double{logits[static_cast<size_t>(id)]} - log_total));
  return out;
}

}  // namespace strata
