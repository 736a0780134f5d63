#pragma once

#include <vector>

#include "base/json.h"
#include "engine/engine.h"

namespace strata {

// Renders messages with the model's template and tokenizes the whole once; control tokens come from
// template bytes only (all bytes with parse_special). `extra`: further variables of the template.
// Throws Error{unsupported} for a model without a usable template, Error{invalid_argument} with the
// template's own message where it refuses the messages.
std::vector<TokenId> chat_prompt(const Engine& engine, OrderedJson messages,
                                 OrderedJson extra = nullptr, bool parse_special = false);

}  // namespace strata
