#pragma once

#include "base/json.h"
#include "server/sampling_request.h"

namespace strata::server {

// The messages of a chat body in the form templates read, with what the server made of them.
struct ChatMessages {
  OrderedJson messages = OrderedJson::array();
  // A role outside system, user, assistant, tool; the template may still refuse it in its own
  // words.
  std::string unknown_role;
};

ChatMessages read_messages(const Json& messages);

// Reads a body of /v1/chat/completions whole, renders its prompt with the model's template and
// tokenizes it: base.prompt is set. Throws ApiError.
GenerationAsk read_chat(const RequestFields& fields, const Engine& engine, const Caller& caller);

}  // namespace strata::server
