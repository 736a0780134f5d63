#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// SentencePiece's precompiled character map: a double-array trie from byte strings to replacements.
// Layout: u32 bytes of the trie (little-endian), the trie (u32 units), then the replacements, each
// ended by a zero byte; a value of the trie is an offset into them.
// Source of the unit's bit fields: Darts-clone (Yata 2011), as SentencePiece writes it.
class Charsmap {
 public:
  // Throws Error{data_corrupt} naming `source` for sizes that do not fit. Empty bytes: an empty
  // map.
  Charsmap(std::span<const char> bytes, std::string_view source);
  bool empty() const { return units_.empty(); }

  struct Hit {
    size_t length = 0;  // bytes of text that are replaced; 0: nothing found
    std::string_view replacement;
  };
  Hit longest_prefix(std::string_view text) const;
  Hit shortest_prefix(std::string_view text) const;

 private:
  Hit find(std::string_view text, bool longest) const;
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace strata
