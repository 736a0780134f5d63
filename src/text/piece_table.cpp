#include "text/piece_table.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "text/byte_hash.h"

namespace strata {

void PieceTable::reserve(size_t pieces, size_t bytes) {
  starts_.reserve(pieces + 1);
  text_.reserve(bytes);
}

void PieceTable::add(std::string_view piece) {
  if (text_.size() + piece.size() > std::numeric_limits<uint32_t>::max() ||
      starts_.size() > std::numeric_limits<int32_t>::max() / 2)
    fail(ErrorCode::unsupported,
         "tokenizer: the vocabulary has more than 4 GiB of text or 2^30 ids");
  text_ += piece;
  starts_.push_back(static_cast<uint32_t>(text_.size()));
  longest_ = std::max(longest_, piece.size());
}

void PieceTable::build_index() {
  const size_t slots = std::bit_ceil(static_cast<size_t>(size()) * 2 + 2);
  slots_.assign(slots, kNoToken);
  for (TokenId id = 0; id < size(); ++id) {
    const std::string_view piece = (*this)[id];
    size_t i = hash_bytes(piece.data(), piece.size()) & (slots - 1);
    while (slots_[i] != kNoToken && (*this)[slots_[i]] != piece) i = (i + 1) & (slots - 1);
    slots_[i] = id;
  }
}

TokenId PieceTable::find(std::string_view piece) const {
  if (slots_.empty()) return kNoToken;
  const size_t mask = slots_.size() - 1;
  size_t i = hash_bytes(piece.data(), piece.size()) & mask;
  while (slots_[i] != kNoToken) {
    if ((*this)[slots_[i]] == piece) return slots_[i];
    i = (i + 1) & mask;
  }
  return kNoToken;
}

}  // namespace strata
