#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace strata {
namespace {

// exp() of less than this cannot change a double sum that has a term of 1.
constexpr double kNegligible = -745.0;

template <typename C>
bool better(const C& a, const C& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

void Sampler::record(TokenId id) { ++counts_[id]; }

// Logits after bias, penalties and temperature, one candidate per token in order of id.
void Sampler::adjust(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<TokenId>(i)};
  for (const auto& [id, bias] : params_.logit_bias)
    candidates_[static_cast<size_t>(id)].logit += bias;
  if (penalises()) {
    for (const auto& [id, count] : counts_) {
      double& logit = candidates_[static_cast<size_t>(id)].logit;
      // Keskar et al. 2019 (CTRL), section 4.1, with the sign-aware form everybody uses.
      logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
      logit -= params_.presence_penalty + params_.frequency_penalty * static_cast<double>(count);
    }
  }
}

// Locally typical sampling (Meister et al. 2022): the tokens whose surprise is closest to the
// entropy, until their share reaches typical_p. `total` is the sum of exp(logit - best).
void Sampler::keep_typical(double total) {
  const double best = candidates_.front().logit;
  const double log_total = std::log(total);
  double entropy = 0;
  for (const Candidate& c : candidates_) {
    const double log_share = c.logit - best - log_total;
    if (log_share > kNegligible) entropy -= std::exp(log_share) * log_share;
  }
  std::vector<std::pair<double, Candidate>> by_distance;
  by_distance.reserve(candidates_.size());
  for (const Candidate& c : candidates_)
    by_distance.emplace_back(std::abs(-(c.logit - best - log_total) - entropy), c);
  std::sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : better(a.second, b.second);
  });
  candidates_.clear();
  double share = 0;
  for (const auto& [distance, c] : by_distance) {
    candidates_.push_back(c);
    share += std::exp(c.logit - best - log_total);
    if (share >= params_.typical_p) break;
  }
  std::sort(candidates_.begin(), candidates_.end(), better<Candidate>);
}

bool Sampler::penalises() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

TokenId Sampler::draw(std::span<const float> logits, double uniform) {
  STRATA_ASSERT(!logits.empty());
  if (params_.temperature == 0 && params_.logit_bias.empty() && !penalises())
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  adjust(logits);
  const auto begin = candidates_.begin();
  if (params_.temperature == 0)
    return std::min_element(begin, candidates_.end(), better<Candidate>)->id;

  for (Candidate& c : candidates_) c.logit /= params_.temperature;
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < candidates_.size()) {
    std::nth_element(begin, begin + params_.top_k, candidates_.end(), better<Candidate>);
    candidates_.resize(static_cast<size_t>(params_.top_k));
  }
  // Only a front part needs an order: it grows until the draw falls into it.
  size_t sorted = 0;
  const auto sort_front = [&](size_t count) {
    if (count <= sorted) return;
    count = std::min(std::max(count, sorted * 8), candidates_.size());
    if (count < candidates_.size())
      std::nth_element(begin + static_cast<std::ptrdiff_t>(sorted),
                       begin + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                       better<Candidate>);
    std::sort(begin + static_cast<std::ptrdiff_t>(sorted),
              begin + static_cast<std::ptrdiff_t>(count), better<Candidate>);
    sorted = count;
  };
  const double best = std::min_element(begin, candidates_.end(), better<Candidate>)->logit;
  const auto weight = [&](const Candidate& c) {
    const double x = c.logit - best;
    return x > kNegligible ? std::exp(x) : 0.0;
  };
  // The candidates' sum in an order that does not depend on how far the sorting went.
  const auto sum_in_id_order = [&] {
    if (params_.top_k > 0) std::sort(candidates_.begin(), candidates_.end(), better<Candidate>);
    double total = 0;
    for (const Candidate& c : candidates_) total += weight(c);
    return total;
  };
  double total = sum_in_id_order();
  if (params_.top_k > 0) sorted = candidates_.size();
  if (params_.typical_p < 1) {
    sort_front(candidates_.size());
    keep_typical(total);
    sorted = candidates_.size();
    total = 0;
    for (const Candidate& c : candidates_) total += weight(c);
  }

  // Walks the kept tokens; `limit` is where top_p or min_p end them.
  size_t kept = candidates_.size();
  if (params_.top_p < 1 || params_.min_p > 0) {
    double share = 0;
    const double wanted = params_.top_p * total;
    size_t i = 0;
    double kept_total = 0;
    for (; i < candidates_.size(); ++i) {
      sort_front(std::min(std::max<size_t>(i + 1, 64), candidates_.size()));
      const double w = weight(candidates_[i]);
      if (i > 0 && (w < params_.min_p || (params_.top_p < 1 && share >= wanted))) break;
      share += w;
      kept_total += w;
    }
    kept = i;
    total = kept_total;
  }
  const double target = uniform * total;
  double cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    sort_front(std::min(std::max<size_t>(i + 1, 64), candidates_.size()));
    cumulative += weight(candidates_[i]);
    if (cumulative > target) return candidates_[i].id;
  }
  // Rounding left the target at the very end: the last token with a weight.
  for (size_t i = kept; i-- > 0;)
    if (weight(candidates_[i]) > 0) return candidates_[i].id;
  return candidates_.front().id;
}

TokenLogprob token_logprobs(std::span<const float> logits, TokenId chosen, int top) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float l : logits) total += std::exp(static_cast<double>(l) - best);
  const double log_total = std::log(total) + best;
  TokenLogprob out;
  out.id = chosen;
  out.logprob = static_cast<float>(logits[static_cast<size_t>(chosen)] - log_total);
  if (top > 0) {
    std::vector<TokenId> ids(logits.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
    const size_t count = std::min(static_cast<size_t>(top), ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                      [&](TokenId a, TokenId b) {
                        const float x = logits[static_cast<size_t>(a)];
                        const float y = logits[static_cast<size_t>(b)];
                        return x != y ? x > y : a < b;
                      });
    for (size_t i = 0; i < count; ++i)
      out.top.emplace_back(ids[i],
                           static_cast<float>(logits[static_cast<size_t>(ids[i])] - log_total));
  }
  return out;
}

int64_t find_broken_logit(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
      return static_cast<int64_t>(i);
  return -1;
}

}  // namespace strata
