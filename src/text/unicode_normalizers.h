#pragma once

#include <memory>

#include "text/charsmap.h"
#include "text/normalizer.h"
#include "text/text_splits.h"

namespace strata {

// The normalizers of tokenizer.json that need Unicode's tables (ICU 72: Unicode 15). Ill-formed
// bytes pass all of them unchanged.

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };
std::unique_ptr<Normalizer> unicode_form_normalizer(UnicodeForm form);
std::unique_ptr<Normalizer> lowercase_normalizer();
// White space at the ends.
std::unique_ptr<Normalizer> strip_normalizer(bool left, bool right);
// Leaves out combining marks (M*), or only non-spacing ones (Mn) as BertNormalizer does.
std::unique_ptr<Normalizer> strip_accents_normalizer(bool only_nonspacing);
// Every match of the finder becomes `to`.
std::unique_ptr<Normalizer> replace_matches_normalizer(std::unique_ptr<SpanFinder> finder,
                                                       std::string to);
// BERT's clean-up: control characters out, any white space a plain space.
std::unique_ptr<Normalizer> clean_text_normalizer();
// Spaces around each CJK ideograph.
std::unique_ptr<Normalizer> isolate_ideographs_normalizer();

// `Precompiled` of tokenizer.json works grapheme by grapheme (short ones are looked up whole by
// their shortest prefix, then character by character), unlike SentencePiece itself.
std::unique_ptr<Normalizer> precompiled_normalizer(Charsmap map);

// SentencePiece's own normalization (`t5` in GGUF): longest matches of the map, white space runs
// joined and trimmed (remove_extra_whitespaces), a space put before the text (add_space_prefix),
// spaces spelled U+2581.
struct SentencePieceRules {
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = true;
};
std::unique_ptr<Normalizer> sentencepiece_normalizer(Charsmap map, const SentencePieceRules& rules);

}  // namespace strata
