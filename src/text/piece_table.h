#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// The spellings of a vocabulary, ids in the order of adding, stored in one block of text: about ten
// bytes a piece beside its characters, which a vocabulary of 262,144 pieces needs.
class PieceTable {
 public:
  void reserve(size_t pieces, size_t bytes);
  void add(std::string_view piece);
  int64_t size() const { return static_cast<int64_t>(starts_.size()) - 1; }
  std::string_view operator[](TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(text_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }
  // Builds the look-up; call once after the last add().
  void build_index();
  // The last piece of that spelling (as llama.cpp resolves duplicates), kNoToken when there is
  // none.
  TokenId find(std::string_view piece) const;
  size_t longest() const { return longest_; }

 private:
  std::string text_;
  std::vector<uint32_t> starts_{0};
  std::vector<TokenId> slots_;  // open addressing, linear probing; kNoToken: empty
  size_t longest_ = 0;
};

}  // namespace strata
