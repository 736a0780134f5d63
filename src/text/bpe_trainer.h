#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/word_counts.h"

namespace strata {

struct BpeTrainerOptions {
  int64_t vocabulary = 8192;               // special tokens and the 256 bytes included
  int64_t least_count = 0;                 // of a pair that is merged
  std::vector<std::string> specials = {};  // the first ids, in this order
};

// Trains byte-level BPE: counts GPT-2's words, then merges the most frequent pair of neighbours
// again and again, of equal ones that of the lower ids. Ids and merges equal those of the
// `tokenizers` package (BpeTrainer with ByteLevel.alphabet() over files) wherever its 32-bit counts
// do not overflow; here counts have 64 bits. Memory is the distinct words' and their pairs', not
// the text's; time is that of reading the text and n log n in the distinct words.
class BpeTrainer {
 public:
  // Throws Error{invalid_argument} for a vocabulary smaller than bytes and special tokens.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Lines count on their own, as the package reads files: a text may come in any pieces that end
  // with line ends. Bytes that are no UTF-8 are words like others.
  void add_text(std::string_view text);
  void add_word(std::string_view word, int64_t count);

  struct Result {
    std::vector<std::string> pieces;  // by id, in GPT-2's byte alphabet
    std::vector<std::pair<int32_t, int32_t>> merges;
    int64_t words = 0;  // distinct
  };
  // May be called once. progress: share of the merges made; may be empty, may throw to stop.
  Result train(const std::function<void(double)>& progress = {});

 private:
  BpeTrainerOptions options_;
  WordCounts counts_;
};

// As tokenizer.json: byte-level BPE, no prefix space.
std::string bpe_tokenizer_json(const BpeTrainer::Result& trained,
                               const std::vector<std::string>& specials);

}  // namespace strata
