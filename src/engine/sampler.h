#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace strata {

// Draws the tokens of one choice. Holds what the penalties need to know of the tokens generated so
// far; the draw itself depends only on (logits, parameters, that history, uniform).
class Sampler {
 public:
  explicit Sampler(SamplingParams params) : params_(std::move(params)) {}

  // The next token from logits [V] by inverse CDF: the kept tokens in order of falling logit, then
  // rising id; the first whose cumulative share exceeds `uniform` in [0, 1). temperature 0: the
  // best token, the lowest id of equals. Does not record it. Logits must be free of NaN.
  TokenId draw(std::span<const float> logits, double uniform);
  // Counts a generated token for the penalties.
  void record(TokenId id);
  const SamplingParams& params() const { return params_; }

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };
  // The tokens of a row in order of falling logit, as far as anybody looks: most draws end within
  // the first few of a large vocabulary.
  class Ranking {
   public:
    // Tokens whose logits are `near` or less below the best come first.
    Ranking(std::span<const float> logits, float best, double near, std::vector<Candidate>& room);
    // The i-th best token, i < V.
    const Candidate& operator[](size_t i);
    std::vector<Candidate>& all();

   private:
    void gather();
    void sort_front(size_t count);

    std::span<const float> logits_;
    float best_;
    double near_;
    std::vector<Candidate>& found_;  // the first sorted_ of them in their places
    size_t sorted_ = 0;
    int rounds_ = 0;
  };

  static bool better(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  bool penalises() const;
  std::span<const float> adjust(std::span<const float> logits);
  void keep_typical(std::vector<Candidate>& ranked, float best, double total) const;

  SamplingParams params_;
  std::unordered_map<TokenId, int64_t> counts_;
  // Reused from draw to draw.
  std::vector<float> adjusted_;
  std::vector<Candidate> candidates_;
};

}  // namespace strata
