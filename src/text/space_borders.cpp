#include "text/space_borders.h"

#include <cstring>
#include <string_view>

namespace strata {
namespace {

constexpr std::string_view kMark = "\u2581";

size_t pair_of(char x, char y) {
  return static_cast<size_t>(static_cast<unsigned char>(x)) << 8 | static_cast<unsigned char>(y);
}

}  // namespace

SpaceBorders::SpaceBorders(const PieceTable& pieces, const std::vector<bool>& is_text) {
  const TokenId mark = pieces.find(kMark);
  usable_ = mark != kNoToken && is_text[static_cast<size_t>(mark)];
  for (TokenId id = 0; usable_ && id < pieces.size(); ++id) {
    if (!is_text[static_cast<size_t>(id)]) continue;
    const std::string_view piece = pieces[id];
    size_t at = 0;
    while ((at = piece.find(kMark, at)) != std::string_view::npos) {
      const size_t behind = at + kMark.size();
      const bool after_mark = at >= kMark.size() && piece.substr(at - kMark.size(), 3) == kMark;
      if (at > 0 && !after_mark) {
        if (behind < piece.size())
          crossed_.set(pair_of(piece[at - 1], piece[behind]));
        else
          for (int y = 0; y < 256; ++y) crossed_.set(pair_of(piece[at - 1], static_cast<char>(y)));
      }
      at = behind;
    }
  }
}

size_t SpaceBorders::word_length(const char* p, const char* end) const {
  const auto at_mark = [end](const char* q) {
    return end - q >= 3 && std::memcmp(q, kMark.data(), 3) == 0;
  };
  const char* q = p;
  while (q != end) {
    if (!at_mark(q)) {
      ++q;
      continue;
    }
    // A mark that ends the text is kept, as if "x mark" were a piece: exact too.
    if (q != p && q + 3 != end && !crossed_.test(pair_of(q[-1], q[3]))) break;
    while (at_mark(q)) q += 3;  // never between marks
  }
  return static_cast<size_t>(q - p);
}

}  // namespace strata
