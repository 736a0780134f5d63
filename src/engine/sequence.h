#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_text.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/swap_space.h"

namespace strata {

using EngineClock = std::chrono::steady_clock;
inline double seconds_between(EngineClock::time_point a, EngineClock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// One answer being generated: a choice of a request, with its own cache and its own random stream.
// Its known tokens are the prompt and what it generated. Life: waiting (cache < 0), then keys and
// values of its known tokens are stored chunk by chunk, and each time they are all stored the next
// token is drawn, until finish != none. When pages run out it is preempted: waiting again, with
// nothing stored (or all of it in a file) and everything else as it was, so that the same tokens
// follow.
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
  int preemptions = 0;
  std::optional<SwappedPages> swapped;  // while it waits: where its keys and values are

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
  bool prompt_told = false;                   // on_prompt was called

  EngineClock::time_point submitted;
  std::optional<EngineClock::time_point> admitted;     // its first sequence got pages
  std::optional<EngineClock::time_point> prompt_read;  // its first sequence drew a token
  std::optional<EngineClock::time_point> deadline;
  bool cancelled = false;

  int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t known_size(const Sequence& s) const {
    return prompt_size() + static_cast<int64_t>(s.generated.size());
  }
  // Known tokens that are not stored yet.
  int64_t left(const Sequence& s) const { return known_size(s) - s.length; }
  TokenId known_token(const Sequence& s, int64_t position) const {
    return position < prompt_size() ? request.prompt[static_cast<size_t>(position)]
                                    : s.generated[static_cast<size_t>(position - prompt_size())];
  }
  // Whether every row of the prompt has to pass through the model for this sequence, because
  // something is asked of it: its logprobs or its embedding.
  bool needs_all_rows(const Sequence& s) const {
    return request.embedding || (request.prompt_logprobs && s.choice == 0 && !prompt_told);
  }
  // What its sequences keep, where that is not the engine's own policy.
  KvPolicy kv_policy() const { return request.kv_policy.value_or(KvPolicy{}); }
  bool finished() const {
    for (const auto& s : sequences)
      if (s->finish == FinishReason::none) return false;
    return true;
  }
};

}  // namespace strata
