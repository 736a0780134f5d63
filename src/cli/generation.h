#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "engine/engine.h"

namespace strata::cli {

// Sampling options of the commands that generate; unset ones take the model's defaults.
struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  int64_t max_tokens = 256;
};
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);
GenerationRequest generation_request(const SamplingFlags& flags, const Engine& engine);

struct Generated {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<double> seconds;  // when each id came, after the request was made
  FinishReason finish = FinishReason::none;
  RequestSummary summary;
};

// Runs one request to its end, handing out text as it comes; Ctrl-C stops it and keeps what is
// there (finish == cancelled). Throws Error{internal} when the model fails.
Generated generate(Engine& engine, GenerationRequest request,
                   const std::function<void(std::string_view)>& on_text);

// A token and its text, which is empty while a character or a stop string is not whole, or ended.
struct TimedToken {
  TokenId id = kNoToken;
  double seconds = 0;  // after the request was made
  std::string text;
};
// The same, token by token.
Generated generate_timed(Engine& engine, GenerationRequest request,
                         const std::function<void(const TimedToken&)>& on_token);

}  // namespace strata::cli
