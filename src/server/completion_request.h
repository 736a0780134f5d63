#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/sampling_request.h"

namespace strata::server {

// One prompt of a request: its ids, and its text where the answer repeats it.
struct Prompt {
  std::vector<TokenId> ids;
  std::string text;
};

// A body of /v1/completions: one ask for all prompts.
struct CompletionAsk {
  GenerationAsk ask;
  std::vector<Prompt> prompts;
  bool echo = false;
};

CompletionAsk read_completion(const RequestFields& fields, const Engine& engine,
                              const Caller& caller);

// `field` as a string, [string], [int] or [[int]]; text is tokenized (one BOS where the model adds
// one), ids are taken as they are.
std::vector<Prompt> read_prompts(const Json& value, std::string_view field, const Engine& engine,
                                 ControlText control, size_t most);

}  // namespace strata::server
