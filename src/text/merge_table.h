#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// The merges of a byte-pair encoding: (left, right) -> rank and merged id.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = 0xFFFFFFFFu;
  struct Merge {
    uint32_t rank = kNoRank;  // the lower, the earlier
    TokenId id = kNoToken;
  };
  enum class Duplicate { keep_first, keep_last };

  void reserve(size_t merges);
  void add(TokenId left, TokenId right, Merge merge, Duplicate duplicate);
  Merge find(TokenId left, TokenId right) const {
    size_t i = slot_of(left, right);
    while (slots_[i].merge.rank != kNoRank) {
      if (slots_[i].left == left && slots_[i].right == right) return slots_[i].merge;
      i = (i + 1) & mask_;
    }
    return {};
  }
  size_t size() const { return size_; }

  // Merges neighbours in `symbols` until none can be: always the lowest rank, of equals the
  // leftmost. Appends what is left to `out`. `symbols` is used up. O(n log n) for any n.
  void apply(std::span<TokenId> symbols, std::vector<TokenId>& out) const;

 private:
  struct Slot {
    TokenId left, right;
    Merge merge;
  };
  size_t slot_of(TokenId left, TokenId right) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_) & mask_;
  }
  void apply_short(std::span<TokenId> symbols, std::vector<TokenId>& out) const;
  void apply_long(std::span<const TokenId> symbols, std::vector<TokenId>& out) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2, Slot{0, 0, {}});
  size_t mask_ = 1;
  int shift_ = 63;
  size_t size_ = 0;
};

}  // namespace strata
