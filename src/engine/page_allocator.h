#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata {

// Numbers 0..total-1 with reference counts. One reference of a page may be the prefix cache's: it
// keeps the page from being free, and gives way when pages are short. A page is
//   free    nobody refers to it,
//   cached  only the prefix cache does,
//   held    somebody else does.
// All operations are O(1); the page released last is handed out first, as its memory is the
// likeliest to be in a processor's cache.
class PageAllocator {
 public:
  explicit PageAllocator(int64_t total);

  // A page with one reference; nullopt: none is free.
  [[nodiscard]] std::optional<int32_t> allocate();
  void retain(int32_t page);
  // Drops one reference; true when it was the last and the page is free again.
  bool release(int32_t page);

  // The prefix cache's reference, at most one a page.
  void keep(int32_t page);
  // Gives it back; true when the page is free now.
  bool forget(int32_t page);
  bool is_kept(int32_t page) const { return kept_[static_cast<size_t>(page)] != 0; }
  bool is_cached(int32_t page) const { return is_kept(page) && references(page) == 1; }

  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  int64_t total() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t cached() const { return cached_; }
  int64_t held() const { return total() - free() - cached(); }

 private:
  std::vector<int32_t> references_;
  std::vector<uint8_t> kept_;
  std::vector<int32_t> free_;  // a stack
  int64_t cached_ = 0;
};

}  // namespace strata
