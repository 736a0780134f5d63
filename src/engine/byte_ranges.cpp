#include "engine/byte_ranges.h"

#include <iterator>

#include "base/error.h"

namespace strata {

std::optional<int64_t> ByteRanges::take(int64_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, length] = *it;
    if (length < bytes) continue;
    free_.erase(it);
    if (length > bytes) free_[begin + bytes] = length - bytes;
    used_ += bytes;
    return begin;
  }
  return std::nullopt;
}

void ByteRanges::give_back(int64_t begin, int64_t bytes) {
  STRATA_ASSERT(bytes > 0 && bytes <= used_);
  used_ -= bytes;
  auto it = free_.emplace(begin, bytes).first;
  if (const auto next = std::next(it); next != free_.end() && begin + bytes == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != begin) return;
  before->second += it->second;
  free_.erase(it);
}

}  // namespace strata
