#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strata {

// A tokenizer.json whose tokens are the characters of `text`, in order of code points: WordLevel
// over single characters, which the `tokenizers` package reads too. A character that is not in
// `text` has no token: encode gives "[UNK]", id = number of characters, which no text of the model
// has. Throws Error{data_corrupt} naming the byte where the text is no UTF-8.
std::string character_tokenizer_json(std::string_view text);
// The same from the characters themselves, ascending.
std::string character_tokenizer_json(std::span<const char32_t> characters);

}  // namespace strata
