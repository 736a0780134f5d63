#pragma once

#include <string>

#include "model/model.h"
#include "text/tokenizer.h"

namespace strata::cli {

struct SampleOptions {
  std::string prompt = "\n";
  int64_t tokens = 200;
  double temperature = 0.8;
  int top_k = 200;
  uint64_t seed = 1;
  int threads = 1;
};

// A text the model writes as its weights are now, the prompt included.
std::string sample_text(const Model& model, const Tokenizer& tokenizer,
                        const SampleOptions& options);

}  // namespace strata::cli
