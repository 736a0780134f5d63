#include "text/score_bpe_model.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_alphabet.h"

namespace strata {
namespace {

// Joined texts are looked up by their bytes, so a piece of megabytes would make encoding quadratic.
constexpr size_t kLongestPiece = 1024;

}  // namespace

ScoreBpeModel::ScoreBpeModel(const PieceTable& pieces, std::vector<float> scores,
                             std::vector<bool> is_text, TokenId unknown)
    : pieces_(&pieces), scores_(std::move(scores)), is_text_(std::move(is_text)) {
  for (TokenId id = 0; id < pieces.size(); ++id)
    if (is_text_[static_cast<size_t>(id)]) longest_ = std::max(longest_, pieces[id].size());
  if (longest_ > kLongestPiece)
    fail(ErrorCode::unsupported, "tokenizer: a piece has {} bytes, at most {} are supported",
         longest_, kLongestPiece);
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<unsigned char>(b);
    byte_ids_[byte] = pieces.find(hex_piece_of_byte(byte));
    if (byte_ids_[byte] == kNoToken) byte_ids_[byte] = unknown;
  }
}

TokenId ScoreBpeModel::find_text(std::string_view piece) const {
  if (piece.size() > longest_) return kNoToken;
  const TokenId id = pieces_->find(piece);
  return id != kNoToken && is_text_[static_cast<size_t>(id)] ? id : kNoToken;
}

void ScoreBpeModel::append_symbol(std::string_view text, std::vector<TokenId>& out) const {
  if (const TokenId id = find_text(text); id != kNoToken) {
    out.push_back(id);
    return;
  }
  for (const char c : text)
    if (const TokenId id = byte_ids_[static_cast<unsigned char>(c)]; id != kNoToken)
      out.push_back(id);
}

void ScoreBpeModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  if (word.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::invalid_argument, "tokenizer: a word of {} bytes is too long (limit 2^31)",
         word.size());
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (size_t at = 0; at < word.size();) {
    const Utf8Step step = decode_utf8(word.substr(at));
    const size_t end = at + static_cast<size_t>(step.valid ? step.length : 1);
    const auto i = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end), i - 1, i + 1});
    at = end;
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  struct Candidate {
    float score;
    int32_t left;
    uint32_t end;  // of the joined text: tells a stale candidate
    bool operator<(const Candidate& o) const {
      return score < o.score || (score == o.score && left > o.left);
    }
  };
  std::vector<Candidate> first;
  const auto join = [&](int32_t left, int32_t right, auto&& push) {
    if (left < 0 || right < 0) return;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(right)];
    const TokenId id = find_text(word.substr(a.begin, b.end - a.begin));
    if (id != kNoToken) push(Candidate{scores_[static_cast<size_t>(id)], left, b.end});
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i + 1 < count; ++i)
    join(i, i + 1, [&](const Candidate& c) { first.push_back(c); });
  std::priority_queue<Candidate> heap(std::less<Candidate>{}, std::move(first));
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& a = symbols[static_cast<size_t>(top.left)];
    if (a.begin == a.end || a.next < 0) continue;
    Symbol& b = symbols[static_cast<size_t>(a.next)];
    if (b.end != top.end) continue;
    a.end = b.end;
    b.begin = b.end;
    a.next = b.next;
    if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = top.left;
    const auto push = [&](const Candidate& c) { heap.push(c); };
    join(a.previous, top.left, push);
    join(top.left, a.next, push);
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const Symbol& s = symbols[static_cast<size_t>(i)];
    append_symbol(word.substr(s.begin, s.end - s.begin), out);
  }
}

}  // namespace strata
