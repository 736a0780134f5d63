#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace strata {

// Turns one piece of the vocabulary into the bytes it stands for.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // at_start: the piece begins the text.
  virtual void apply(std::string& piece, bool at_start) const = 0;
};
using DecodeStepList = std::vector<std::unique_ptr<DecodeStep>>;

// Byte alphabet -> bytes; a piece with other characters stays as it is.
std::unique_ptr<DecodeStep> byte_level_decode_step();
std::unique_ptr<DecodeStep> replace_decode_step(std::string from, std::string to);
// "<0x41>" -> the byte.
std::unique_ptr<DecodeStep> byte_fallback_decode_step();
// Up to `count` times `character` from the front of the piece; only_first: of the text's first
// piece.
std::unique_ptr<DecodeStep> strip_front_decode_step(std::string character, size_t count,
                                                    bool only_first);

// BERT: a space before a piece unless it begins the text or has `prefix` ("##"), which is dropped;
// cleanup: no space before punctuation and contractions.
std::unique_ptr<DecodeStep> word_piece_decode_step(std::string prefix, bool cleanup);

}  // namespace strata
