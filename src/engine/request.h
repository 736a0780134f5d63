#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/kv_policy.h"
#include "text/tokenizer.h"

namespace strata {

// How the next token is drawn. Order of application: logit_bias, penalties (generated tokens only),
// temperature, top_k, typical_p, top_p, min_p, draw. temperature 0: the best token, lowest id
// first.
struct SamplingParams {
  double temperature = 1;
  int32_t top_k = 0;  // 0: off
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  double repetition_penalty = 1;  // of every token generated so far, once (CTRL's rule)
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::pair<TokenId, double>> logit_bias;
  uint64_t seed = 0;
  bool ignore_eos = false;
};

enum class FinishReason : uint8_t { none, stop, length, cancelled, timeout, error };

struct GenerationRequest {
  std::vector<TokenId> prompt;
  bool embedding = false;  // no tokens are drawn; the sink gets the prompt's embedding
  SamplingParams sampling;
  std::optional<int64_t> max_tokens;  // absent: to the end of the context
  int choices = 1;                    // n
  uint32_t prompt_index = 0;      // of several prompts in one API call: part of the random counter
  std::vector<std::string> stop;  // at most 16
  int top_logprobs = -1;          // -1: no logprobs; 0: of the chosen token; k: and the k best
  bool prompt_logprobs = false;   // echo + logprobs
  bool show_control = false;      // control tokens appear in the text
  double priority = 0;            // larger goes first, -100..100; see Policy
  uint32_t key = 1;               // whose request: fair shares; prefixes are shared within a key
  double timeout_seconds = 0;     // 0: none
  // What is kept of the text; absent: as the engine's options say. Engine::submit() takes another
  // one only where they say full. A request with one shares no prefixes.
  std::optional<KvPolicy> kv_policy = {};
};

struct TokenLogprob {
  TokenId id = kNoToken;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // best first
};

// What one step gave one choice of one request. Text deltas are whole UTF-8 characters and hold
// back only what may still become a stop string; logprobs belong to the ids of this event.
struct TokenEvent {
  int choice = 0;
  std::vector<TokenId> ids;            // generated in this event, the end token included
  std::string text;                    // may be empty
  std::vector<TokenLogprob> logprobs;  // one per id, when asked for
  FinishReason finish = FinishReason::none;
  std::string error;  // finish == error

  // Of `of_choice`, with nothing in it; keeps the memory.
  void clear(int of_choice) {
    choice = of_choice;
    ids.clear();
    text.clear();
    logprobs.clear();
    finish = FinishReason::none;
    error.clear();
  }
};

struct RequestTimings {
  double queue_seconds = 0;
  double prompt_seconds = 0;
  double generation_seconds = 0;
  double ttft_seconds = 0;
};

// The whole request is over: after the last TokenEvent of its last choice.
struct RequestSummary {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;  // of all choices
  RequestTimings timings;
};

// Receives a request's results on the engine's thread; must not block or throw.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Once, before the first on_token: the prompt is read. logprobs: [prompt tokens] where
  // prompt_logprobs was asked for, the first one NaN (it follows nothing); else empty.
  virtual void on_prompt(const std::vector<TokenLogprob>& /*logprobs*/) {}
  // The event is the engine's, which uses its memory again: copy what is to stay.
  virtual void on_token(const TokenEvent& event) = 0;
  // The unit vector [D] of an embedding request, before on_done.
  virtual void on_embedding(const std::vector<float>& /*embedding*/) {}
  virtual void on_done(const RequestSummary& summary) = 0;
};

}  // namespace strata
