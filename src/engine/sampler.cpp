#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/logits.h"

namespace strata {

Sampler::Ranking::Ranking(std::span<const float> logits, float best, double near,
                          std::vector<Candidate>& room)
    : logits_(logits), best_(best), near_(near), found_(room) {
  found_.clear();
}

// The next tokens below those that were found: near the best, then farther away, then all.
void Sampler::Ranking::gather() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  constexpr double kBounds[] = {1, 3, kNone};
  const double least = double{best_} - kBounds[rounds_] * near_;
  const double last = rounds_ == 0 ? kNone : double{best_} - kBounds[rounds_ - 1] * near_;
  for (size_t i = 0; i < logits_.size(); ++i) {
    const double logit = logits_[i];
    if (logit >= least && (rounds_ == 0 || logit < last))
      found_.push_back({logits_[i], static_cast<TokenId>(i)});
  }
  ++rounds_;
}

void Sampler::Ranking::sort_front(size_t count) {
  constexpr size_t kLeast = 64, kGrowth = 8;
  count = std::min(std::max({count, kLeast, sorted_ * kGrowth}), found_.size());
  const auto at = [&](size_t i) { return found_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (count < found_.size()) std::nth_element(at(sorted_), at(count), found_.end(), better);
  std::sort(at(sorted_), at(count), better);
  sorted_ = count;
}

const Sampler::Candidate& Sampler::Ranking::operator[](size_t i) {
  while (sorted_ <= i) {
    while (found_.size() == sorted_) gather();
    sort_front(i + 1);
  }
  return found_[i];
}

std::vector<Sampler::Candidate>& Sampler::Ranking::all() {
  (*this)[logits_.size() - 1];
  return found_;
}

void Sampler::record(TokenId id) {
  if (penalises()) ++counts_[id];
}

bool Sampler::penalises() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

// Logits after bias and penalties.
std::span<const float> Sampler::adjust(std::span<const float> logits) {
  if (params_.logit_bias.empty() && !penalises()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : params_.logit_bias) {
    float& logit = adjusted_[static_cast<size_t>(id)];
    logit = static_cast<float>(double{logit} + bias);
  }
  if (!penalises()) return adjusted_;
  for (const auto& [id, count] : counts_) {
    double logit = adjusted_[static_cast<size_t>(id)];
    // Keskar et al. 2019 (CTRL), section 4.1, with the sign-aware form everybody uses.
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    logit -= params_.presence_penalty + params_.frequency_penalty * static_cast<double>(count);
    adjusted_[static_cast<size_t>(id)] = static_cast<float>(logit);
  }
  return adjusted_;
}

// Locally typical sampling (Meister et al. 2022): of `ranked` the tokens whose surprise is closest
// to the entropy, until their share reaches typical_p. `total` is the sum of their weights.
void Sampler::keep_typical(std::vector<Candidate>& ranked, float best, double total) const {
  const double log_total = std::log(total);
  const auto log_share = [&](const Candidate& c) {
    return (double{c.logit} - double{best}) / params_.temperature - log_total;
  };
  double entropy = 0;
  for (const Candidate& c : ranked) {
    const double share = std::exp(log_share(c));
    if (share > 0) entropy -= share * log_share(c);
  }
  std::vector<std::pair<double, Candidate>> by_distance;
  by_distance.reserve(ranked.size());
  for (const Candidate& c : ranked) by_distance.emplace_back(std::abs(-log_share(c) - entropy), c);
  std::sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : better(a.second, b.second);
  });
  ranked.clear();
  double share = 0;
  for (const auto& [distance, c] : by_distance) {
    ranked.push_back(c);
    share += std::exp(log_share(c));
    if (share >= params_.typical_p) break;
  }
  std::sort(ranked.begin(), ranked.end(), better);
}

TokenId Sampler::draw(std::span<const float> logits, double uniform) {
  STRATA_ASSERT(!logits.empty());
  const std::span<const float> x = adjust(logits);
  const float best = max_logit(x);
  if (params_.temperature == 0)
    return static_cast<TokenId>(std::find(x.begin(), x.end(), best) - x.begin());

  const auto weight = [&](const Candidate& c) {
    return std::exp((double{c.logit} - double{best}) / params_.temperature);
  };
  // Beyond these a token has less than 1/2980 of the best one's share.
  constexpr double kNear = 8;
  Ranking ranking(x, best, kNear * params_.temperature, candidates_);
  size_t kept = x.size();
  if (params_.top_k > 0) kept = std::min(kept, static_cast<size_t>(params_.top_k));
  const auto sum_of_kept = [&] {
    double sum = 0;
    for (size_t i = 0; i < kept; ++i) sum += weight(ranking[i]);
    return sum;
  };
  double total = kept < x.size() ? sum_of_kept() : sum_of_exp(x, best, params_.temperature);
  if (params_.typical_p < 1) {
    std::vector<Candidate>& ranked = ranking.all();
    ranked.resize(kept);
    keep_typical(ranked, best, total);
    kept = ranked.size();
    total = sum_of_kept();
  }
  if (params_.top_p < 1 || params_.min_p > 0) {
    const double wanted = params_.top_p * total;
    double share = 0;
    size_t i = 0;
    for (; i < kept; ++i) {
      const double w = weight(ranking[i]);
      if (i > 0 && (w < params_.min_p || (params_.top_p < 1 && share >= wanted))) break;
      share += w;
    }
    kept = i;
    total = share;
  }
  const double target = uniform * total;
  double cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    cumulative += weight(ranking[i]);
    if (cumulative > target) return ranking[i].id;
  }
  // Rounding left the target at the very end: the last token with a weight.
  for (size_t i = kept; i-- > 0;)
    if (weight(ranking[i]) > 0) return ranking[i].id;
  return ranking[0].id;
}

}  // namespace strata
