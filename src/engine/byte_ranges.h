#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace strata {

// Ranges of bytes 0..size-1 that are handed out and come back, first fit; free neighbours merge.
// Costs O(free ranges) a call: meant for tens of them.
class ByteRanges {
 public:
  explicit ByteRanges(int64_t size) : size_(size) {
    if (size > 0) free_[0] = size;
  }

  // The begin of `bytes` > 0 bytes; nullopt: no free range is large enough.
  [[nodiscard]] std::optional<int64_t> take(int64_t bytes);
  void give_back(int64_t begin, int64_t bytes);
  int64_t used() const { return used_; }
  int64_t size() const { return size_; }

 private:
  int64_t size_ = 0, used_ = 0;
  std::map<int64_t, int64_t> free_;  // begin: bytes
};

}  // namespace strata
