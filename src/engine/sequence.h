#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_text.h"
#include "engine/request.h"
#include "engine/sampler.h"

namespace strata {

using EngineClock = std::chrono::steady_clock;

// One answer being generated: a choice of a request, with its own cache and its own random stream.
// Life: waiting (cache < 0), then its prompt is read chunk by chunk (length < prompt size), then
// one token a step until finish != none.
struct Sequence {
  Sequence(int choice_index, const Tokenizer& tokenizer, const GenerationRequest& request)
      : choice(choice_index),
        sampler(request.sampling),
        text(tokenizer, request.stop, request.show_control) {}

  int choice;
  int32_t cache = -1;
  int64_t length = 0;  // tokens whose keys are in the cache
  std::vector<TokenId> generated;
  Sampler sampler;
  AnswerText text;
  FinishReason finish = FinishReason::none;

  bool waiting() const { return cache < 0 && finish == FinishReason::none; }
  bool running() const { return cache >= 0; }
};

// A request from submit() to on_done().
struct ActiveRequest {
  uint64_t id = 0;
  GenerationRequest request;
  std::shared_ptr<ResultSink> sink;
  int64_t max_tokens = 0;  // as in force: clamped to the context
  std::vector<std::unique_ptr<Sequence>> sequences;
  RequestSummary summary;
  std::vector<double> embedding_sum;          // [D]
  std::vector<TokenLogprob> prompt_logprobs;  // grows chunk by chunk

  EngineClock::time_point submitted;
  std::optional<EngineClock::time_point> admitted;     // its first sequence got pages
  std::optional<EngineClock::time_point> prompt_read;  // its first sequence drew a token
  std::optional<EngineClock::time_point> deadline;
  bool cancelled = false;

  int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
  bool finished() const {
    for (const auto& s : sequences)
      if (s->finish == FinishReason::none) return false;
    return true;
  }
};

}  // namespace strata
