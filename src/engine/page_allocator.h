#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata {

// Numbers 0..total-1 with reference counts. All operations are O(1); the page released last is
// handed out first, as its memory is the likeliest to be in a cache.
class PageAllocator {
 public:
  explicit PageAllocator(int64_t total);

  // A page with one reference; nullopt: none is free.
  [[nodiscard]] std::optional<int32_t> allocate();
  void retain(int32_t page);
  // Drops one reference; true when it was the last and the page is free again.
  bool release(int32_t page);

  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  int64_t total() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used() const { return total() - free(); }

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a stack
};

}  // namespace strata
