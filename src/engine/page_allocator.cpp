#include "engine/page_allocator.h"

#include <cstddef>
#include <limits>

#include "base/error.h"

namespace strata {

PageAllocator::PageAllocator(int64_t total) {
  STRATA_ASSERT(total >= 0 && total <= std::numeric_limits<int32_t>::max());
  references_.assign(static_cast<size_t>(total), 0);
  kept_.assign(static_cast<size_t>(total), 0);
  free_.resize(static_cast<size_t>(total));
  for (int64_t i = 0; i < total; ++i)
    free_[static_cast<size_t>(i)] = static_cast<int32_t>(total - 1 - i);
}

std::optional<int32_t> PageAllocator::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PageAllocator::retain(int32_t page) {
  STRATA_ASSERT(page >= 0 && page < total() && references(page) > 0);
  if (is_cached(page)) --cached_;
  ++references_[static_cast<size_t>(page)];
}

bool PageAllocator::release(int32_t page) {
  STRATA_ASSERT(page >= 0 && page < total() && references(page) > 0 && !is_cached(page));
  if (--references_[static_cast<size_t>(page)] > 0) {
    if (is_cached(page)) ++cached_;
    return false;
  }
  free_.push_back(page);  // within the capacity of the constructor: never allocates
  return true;
}

void PageAllocator::keep(int32_t page) {
  STRATA_ASSERT(page >= 0 && page < total() && references(page) > 0 && !is_kept(page));
  ++references_[static_cast<size_t>(page)];
  kept_[static_cast<size_t>(page)] = 1;
}

bool PageAllocator::forget(int32_t page) {
  STRATA_ASSERT(page >= 0 && page < total() && is_kept(page));
  if (is_cached(page)) --cached_;
  kept_[static_cast<size_t>(page)] = 0;
  return release(page);
}

}  // namespace strata
