#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// Turns one word (what a pre-tokenizer left, any bytes, not empty) into ids. Immutable. Control
// tokens and byte tokens are never the answer to their own spelling.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids. The result depends on `word` alone.
  virtual void encode(std::string_view word, std::vector<TokenId>& out) const = 0;
};

}  // namespace strata
