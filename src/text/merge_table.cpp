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
  };
  // left, right: what stood there when the pair was queued; anything else now means it is stale.
  struct Candidate {
    uint64_t rank_and_position;
    TokenId left, right, merged;
    bool operator>(const Candidate& o) const { return rank_and_position > o.rank_and_position; }
  };
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<Link> links(symbols.size());
  for (int32_t i = 0; i < n; ++i)
    links[static_cast<size_t>(i)] = {i - 1, i + 1 < n ? i + 1 : -1,
                                     symbols[static_cast<size_t>(i)]};

  const auto candidate = [&](int32_t left, int32_t right) -> Candidate {
    const TokenId a = links[static_cast<size_t>(left)].id;
    const TokenId b = links[static_cast<size_t>(right)].id;
    const Merge m = find(a, b);
    return {static_cast<uint64_t>(m.rank) << 32 | static_cast<uint32_t>(left), a, b, m.id};
  };
  std::vector<Candidate> first;
  for (int32_t i = 0; i + 1 < n; ++i)
    if (const Candidate c = candidate(i, i + 1); c.merged != kNoToken) first.push_back(c);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap(std::greater<>{},
                                                                              std::move(first));
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    const auto left = static_cast<int32_t>(top.rank_and_position & 0xFFFFFFFFu);
    Link& a = links[static_cast<size_t>(left)];
    if (a.id != top.left || a.next < 0) continue;
    Link& b = links[static_cast<size_t>(a.next)];
    if (b.id != top.right) continue;
    a.id = top.merged;
    b.id = kNoToken;
    a.next = b.next;
    if (a.next >= 0) links[static_cast<size_t>(a.next)].previous = left;
    if (a.previous >= 0)
      if (const Candidate c = candidate(a.previous, left); c.merged != kNoToken) heap.push(c);
    if (a.next >= 0)
      if (const Candidate c = candidate(left, a.next); c.merged != kNoToken) heap.push(c);
  }
  for (const Link& link : links)
    if (link.id != kNoToken) out.push_back(link.id);
}

}  // namespace strata
