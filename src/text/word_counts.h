#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// How often each word has come: a table with the words' bytes in one piece, for texts in which some
// hundred thousand words repeat many million times.
class WordCounts {
 public:
  void add(std::string_view word, int64_t count);

  size_t size() const { return used_; }
  struct Word {
    std::string_view text;  // until the next add()
    int64_t count = 0;
  };
  // In the order in which they came first.
  std::vector<Word> words() const;

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t start = 0;  // in bytes_
    uint32_t size = 0;
    int64_t count = 0;
  };
  void grow();

  std::vector<uint32_t> slots_;  // number of an entry, plus one; 0: free
  std::vector<Entry> entries_;
  std::string bytes_;
  size_t used_ = 0;
};

}  // namespace strata
