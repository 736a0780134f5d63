#pragma once

#include <bitset>
#include <cstddef>
#include <vector>

#include "text/piece_table.h"

namespace strata {

// Where a text can be cut before U+2581 without changing what byte-pair merging gives: a border
// between x and the mark is safe when no piece holds "x mark y" with that x and y. Gemma's 255,639
// text pieces have one that crosses such a border (">▁</"), Llama's none, so a text falls apart
// into words that can be cached, though these models have no pre-tokenizer.
class SpaceBorders {
 public:
  // is_text[id]: text may become this piece.
  SpaceBorders(const PieceTable& pieces, const std::vector<bool>& is_text);
  // False: the mark itself is no piece (unknown neighbours would be fused across a cut).
  bool usable() const { return usable_; }
  // Bytes up to the first safe border behind p, or all; p < end.
  size_t word_length(const char* p, const char* end) const;

 private:
  bool usable_ = false;
  std::bitset<65536> crossed_;  // last byte of x << 8 | first byte of y
};

}  // namespace strata
