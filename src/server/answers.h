#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"

namespace strata::server {

// The forms in which the API's generating endpoints answer.
enum class AnswerForm : uint8_t { chat, completion, generate };

// What stays the same over all chunks of an answer.
struct AnswerHead {
  AnswerForm form = AnswerForm::chat;
  std::string id;
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// Everything one choice has produced; text_offset counts code points.
struct ChoiceResult {
  int index = 0;
  std::string text;
  std::vector<TokenLogprob> logprobs;
  int64_t first_offset = 0;
  FinishReason finish = FinishReason::none;
};

OrderedJson usage_json(const Usage& usage);
OrderedJson timings_json(const RequestTimings& timings, const Usage& usage);
std::string finish_reason_text(FinishReason reason);

// A token's text for logprobs: its characters, or "bytes:\xf0" where it is no whole character.
std::string token_text(const Tokenizer& tokenizer, TokenId id);
// "logprobs" of a choice in the shape of the form.
OrderedJson logprobs_json(AnswerForm form, const Tokenizer& tokenizer,
                          const std::vector<TokenLogprob>& logprobs, int64_t first_offset);

OrderedJson whole_answer(const AnswerHead& head, const Tokenizer& tokenizer,
                         const std::vector<ChoiceResult>& choices, bool with_logprobs,
                         const Usage& usage);

// Stream chunks. `first`: carries the role (chat).
OrderedJson delta_chunk(const AnswerHead& head, const Tokenizer& tokenizer,
                        const ChoiceResult& delta, bool first, bool with_logprobs);
OrderedJson finish_chunk(const AnswerHead& head, int index, FinishReason reason);
OrderedJson usage_chunk(const AnswerHead& head, const Usage& usage);

}  // namespace strata::server
