#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/serve_plan.h"

namespace strata {

struct ServeClientOptions {
  std::string url;      // http://HOST:PORT of any server with /v1/completions
  std::string model;    // as the server calls it
  std::string api_key;  // empty: none is sent
  int clients = 0;      // closed loop: each sends its next call when one has ended; 0: by the plan
  int64_t shared_prompt_tokens = 0;  // the first words of every prompt are the same
  uint64_t seed = 1;
  bool ignore_eos = true;  // answers as long as planned; false: for servers that refuse the field
  int timeout_seconds = 600;
  std::function<void()> check;                     // throws to stop; may be empty
  std::function<void(int64_t, int64_t)> progress;  // calls ended, errors among them; may be empty
};

// What became of one call. Times in seconds after the start of the test.
struct CallRecord {
  double sent = 0, ended = 0;
  std::vector<double> chunks = {};  // when each piece of text came: a token where text allows
  int status = 0;                   // 0: no answer
  std::string error = {};           // why it is no whole answer; empty: it is
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // as the server counts them
};

// The n-th call's prompt: about `tokens` tokens of common English words.
std::string prompt_text(uint64_t seed, int64_t call, int64_t tokens, int64_t shared_tokens);

// Sends every call as a streamed completion, greedy, and returns what became of each, in the order
// of the plan. Failed calls are recorded, not thrown and not repeated.
std::vector<CallRecord> run_calls(const std::vector<PlannedCall>& plan,
                                  const ServeClientOptions& options);

}  // namespace strata
