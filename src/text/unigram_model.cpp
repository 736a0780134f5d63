#include "text/unigram_model.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_alphabet.h"

namespace strata {
namespace {

constexpr double kUnknownPenalty = 10;
// A piece of megabytes would make encoding quadratic.
constexpr size_t kLongestPiece = 1024;

}  // namespace

UnigramModel::UnigramModel(const PieceTable& pieces, std::vector<double> scores,
                           const std::vector<bool>& is_text, const std::vector<bool>& is_normal,
                           const Options& options)
    : scores_(std::move(scores)), options_(options) {
  std::vector<std::pair<std::string, TokenId>> entries;
  double lowest = std::numeric_limits<double>::max();
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (is_normal[i]) lowest = std::min(lowest, scores_[i]);
    if (!is_text[i]) continue;
    if (pieces[id].size() > kLongestPiece)
      fail(ErrorCode::unsupported, "tokenizer: piece {} has {} bytes, at most {} are supported", id,
           pieces[id].size(), kLongestPiece);
    entries.emplace_back(pieces[id], id);
  }
  trie_ = ByteTrie(std::move(entries));
  unknown_score_ = lowest - kUnknownPenalty;
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<unsigned char>(b);
    byte_ids_[byte] = pieces.find(hex_piece_of_byte(byte));
  }
}

void UnigramModel::append_unknown(std::string_view text, std::vector<TokenId>& out) const {
  if (options_.byte_fallback) {
    const bool all = std::all_of(text.begin(), text.end(), [&](char c) {
      return byte_ids_[static_cast<unsigned char>(c)] != kNoToken;
    });
    if (all) {
      for (const char c : text) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      return;
    }
  }
  if (options_.unknown != kNoToken) out.push_back(options_.unknown);
}

void UnigramModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    uint32_t begin = 0;     // of the last piece
    TokenId id = kNoToken;  // kNoToken: an unknown character
    bool reached = false;
  };
  if (word.size() >= std::numeric_limits<uint32_t>::max())
    fail(ErrorCode::invalid_argument, "tokenizer: a word of {} bytes is too long (limit 2^32)",
         word.size());
  std::vector<Best> best(word.size() + 1);
  best[0] = {0, 0, kNoToken, true};
  for (size_t at = 0; at < word.size();) {
    const Utf8Step step = decode_utf8(word.substr(at));
    const size_t character = step.valid ? static_cast<size_t>(step.length) : 1;
    const double so_far = best[at].score;
    bool whole_character = false;
    const auto offer = [&](size_t end, double score, TokenId id) {
      if (best[end].reached && score <= best[end].score) return;
      best[end] = {score, static_cast<uint32_t>(at), id, true};
    };
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t i = at; i < word.size(); ++i) {
      node = trie_.step(node, static_cast<unsigned char>(word[i]));
      if (node == ByteTrie::kNowhere) break;
      const TokenId id = trie_.id_at(node);
      if (id == kNoToken) continue;
      offer(i + 1, so_far + scores_[static_cast<size_t>(id)], id);
      if (i + 1 - at == character) whole_character = true;
    }
    if (!whole_character) offer(at + character, so_far + unknown_score_, kNoToken);
    at += character;
  }
  std::vector<std::pair<uint32_t, uint32_t>> cuts;  // [begin, end) from the back
  for (size_t end = word.size(); end > 0; end = best[end].begin)
    cuts.emplace_back(best[end].begin, static_cast<uint32_t>(end));
  for (size_t k = cuts.size(); k-- > 0;) {
    const TokenId id = best[cuts[k].second].id;
    if (id != kNoToken) {
      out.push_back(id);
      continue;
    }
    const uint32_t begin = cuts[k].first;
    while (k > 0 && best[cuts[k - 1].second].id == kNoToken) --k;
    append_unknown(word.substr(begin, cuts[k].second - begin), out);
  }
}

}  // namespace strata
