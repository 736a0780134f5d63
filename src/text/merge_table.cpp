#include "text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>

#include "base/error.h"

namespace strata {
namespace {

// Up to here scanning an array for the lowest rank beats a heap (it stays in the first-level
// cache).
constexpr size_t kShort = 40;

}  // namespace

void MergeTable::reserve(size_t merges) {
  STRATA_ASSERT(size_ == 0);
  const size_t slots = std::bit_ceil(merges * 2 + 2);
  slots_.assign(slots, Slot{0, 0, {}});
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
}

void MergeTable::add(TokenId left, TokenId right, Merge merge, Duplicate duplicate) {
  STRATA_ASSERT(merge.rank != kNoRank && (size_ + 1) * 2 <= slots_.size());
  size_t i = slot_of(left, right);
  for (; slots_[i].merge.rank != kNoRank; i = (i + 1) & mask_) {
    if (slots_[i].left != left || slots_[i].right != right) continue;
    if (duplicate == Duplicate::keep_last) slots_[i].merge = merge;
    return;
  }
  slots_[i] = {left, right, merge};
  ++size_;
}

void MergeTable::apply(std::span<TokenId> symbols, std::vector<TokenId>& out) const {
  if (symbols.size() <= kShort)
    apply_short(symbols, out);
  else
    apply_long(symbols, out);
}

void MergeTable::apply_short(std::span<TokenId> symbols, std::vector<TokenId>& out) const {
  size_t n = symbols.size();
  std::array<Merge, kShort> with_next;
  for (size_t i = 0; i + 1 < n; ++i) with_next[i] = find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (with_next[i].rank < with_next[best].rank) best = i;
    if (with_next[best].rank == kNoRank) break;
    symbols[best] = with_next[best].id;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      with_next[i] = with_next[i + 1];
    }
    --n;
    if (best > 0) with_next[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) with_next[best] = find(symbols[best], symbols[best + 1]);
  }
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(n));
}

void MergeTable::apply_long(std::span<const TokenId> symbols, std::vector<TokenId>& out) const {
  if (symbols.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::invalid_argument, "tokenizer: a word of {} symbols is too long (limit 2^31)",
         symbols.size());
  struct Link {
    int32_t previous, next;
    TokenId id;  // kNoToken: merged into its left neighbour
    Merge with_next;
  };
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<Link> links(symbols.size());
  const auto at = [&](int32_t i) -> Link& { return links[static_cast<size_t>(i)]; };
  for (int32_t i = 0; i < n; ++i)
    at(i) = {i - 1, i + 1 < n ? i + 1 : -1, symbols[static_cast<size_t>(i)], {}};

  // A pair is queued as its rank above its position, in eight bytes: with a long word the heap is
  // what the caches are too small for. An entry whose rank is no longer the pair's is stale.
  std::vector<uint64_t> first;
  const auto pair = [&](int32_t left, auto&& push) {
    Link& a = at(left);
    a.with_next = a.next < 0 ? Merge{} : find(a.id, at(a.next).id);
    if (a.with_next.rank != kNoRank)
      push(uint64_t{a.with_next.rank} << 32 | static_cast<uint32_t>(left));
  };
  for (int32_t i = 0; i < n; ++i) pair(i, [&](uint64_t entry) { first.push_back(entry); });
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap(std::greater<>{},
                                                                            std::move(first));
  const auto queue = [&](uint64_t entry) { heap.push(entry); };
  while (!heap.empty()) {
    const uint64_t top = heap.top();
    heap.pop();
    const auto left = static_cast<int32_t>(top & 0xFFFFFFFFu);
    Link& a = at(left);
    if (a.with_next.rank != static_cast<uint32_t>(top >> 32)) continue;
    Link& b = at(a.next);
    a.id = a.with_next.id;
    b.id = kNoToken;
    b.with_next = {};
    a.next = b.next;
    if (a.next >= 0) at(a.next).previous = left;
    if (a.previous >= 0) pair(a.previous, queue);
    pair(left, queue);
  }
  for (const Link& link : links)
    if (link.id != kNoToken) out.push_back(link.id);
}

}  // namespace strata
