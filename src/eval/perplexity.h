#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "exec/exec.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace strata {

struct PerplexityOptions {
  int64_t context = 512;  // tokens of a window
  int64_t chunks = 0;     // windows; 0: all that are whole
  // Each window starts with this token instead of its own first one: set it to the model's BOS
  // where the tokenizer adds one.
  std::optional<TokenId> first_token = std::nullopt;
  std::function<void(double)> progress = nullptr;  // share done, 0..1; may be empty
};

struct PerplexityResult {
  double perplexity = 0;
  double nll = 0;             // mean negative log likelihood, nats per token
  double standard_error = 0;  // of the perplexity
  int64_t tokens = 0;         // scored
};

// Scores a text as llama-perplexity does: consecutive windows of `context` tokens, each on its own;
// the first half of a window is only read, logits at positions context / 2 .. context - 2 score the
// tokens after them. Logits are made a few rows at a time, never [context, V].
// Throws invalid_argument for fewer tokens than a window or a window longer than the model's
// context; data_corrupt when logits are not finite.
PerplexityResult perplexity(Exec& exec, const Model& model, std::span<const TokenId> tokens,
                            const PerplexityOptions& options);

// -log softmax(logits)[target] of row `row`, f32 or f64 logits.
double negative_log_likelihood(const Tensor& logits, int64_t row, TokenId target);

}  // namespace strata
