#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/serve_exec.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace strata {

struct StreamingOptions {
  int64_t tokens = 0;      // of the text; 0: all
  int64_t segment = 5000;  // tokens of a segment, the last one may be shorter
  int64_t step_rows = 64;  // tokens of a pass, at most the executor's
  std::optional<TokenId> first_token = std::nullopt;  // before the text: the model's BOS
  std::function<void(double)> progress = nullptr;     // share done, 0..1; may be empty
};

// A stretch of the text, and what the sequence held at its end.
struct StreamingSegment {
  int64_t first = 0, tokens = 0;  // scored
  double nll = 0, perplexity = 0;
  int64_t held_bytes = 0, pages = 0;  // of keys and values
  int64_t resident_bytes = 0;         // of the process
};

// Scores a text as one sequence that never begins anew, under the executor's KV policy: every token
// given all that the policy kept of those before it. StreamingLLM's experiment: with sinks and a
// window perplexity stays flat and memory constant however long the text is.
// Throws invalid_argument for a text of less than two tokens or longer than the executor's context;
// data_corrupt when logits are not finite.
std::vector<StreamingSegment> streaming_perplexity(ServeExec& exec, const Model& model,
                                                   std::span<const TokenId> tokens,
                                                   const StreamingOptions& options);

}  // namespace strata
