#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// The pre-tokenizers that are written by hand, each equal to its regular expression (shown) applied
// from left to right. \s is White_Space; an ill-formed byte is a symbol of its own.
enum class WordPattern {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2,
  // Each \p{N} alone first, then gpt2 on what lies between (smollm, starcoder, command-r).
  smollm,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  llama3,
  // llama3 with \p{N} instead of \p{N}{1,3}.
  qwen2,
};

// Bytes of the first word of [p, end); p < end. Never 0; whole characters. Linear over a text: no
// byte is looked at more than a few times.
using WordLength = size_t (*)(const char* p, const char* end);
WordLength word_length_function(WordPattern pattern);

}  // namespace strata
