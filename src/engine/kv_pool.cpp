#include "engine/kv_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/attention.h"

namespace strata {
namespace {

int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

int64_t KvShape::layer_page_bytes() const {
  return kv_heads * head_page_elements(head_size) * kv_type_bytes(type);
}

int64_t KvShape::most_pages(size_t group, int64_t tokens, int64_t step_rows) const {
  const int64_t window = groups[group].window;
  // A step needs the window before its first row, and its rows; both ends may cut a page.
  const int64_t span = window + step_rows;
  return window == 0 ? pages_for(tokens) : std::min(pages_for(tokens), pages_for(span) + 1);
}

std::vector<int64_t> plan_kv_pages(const KvShape& shape, uint64_t bytes, int64_t context,
                                   int64_t sequences, int64_t step_rows) {
  const auto plan = [&](int64_t full_pages) {
    std::vector<int64_t> pages;
    for (size_t g = 0; g < shape.groups.size(); ++g)
      pages.push_back(std::min(full_pages, sequences * shape.most_pages(g, context, step_rows)));
    return pages;
  };
  const auto cost = [&](int64_t full_pages) {
    const std::vector<int64_t> pages = plan(full_pages);
    uint64_t sum = 0;
    for (size_t g = 0; g < pages.size(); ++g)
      sum += static_cast<uint64_t>(pages[g]) * static_cast<uint64_t>(shape.page_bytes(g));
    return sum;
  };
  const int64_t least = pages_for(std::min(context, step_rows));
  if (cost(least) > bytes)
    fail(ErrorCode::resource_exhausted,
         "KV cache: {} bytes are less than one step of {} tokens needs, {} bytes; give it more "
         "(--kv-memory) or make steps smaller (--batch-tokens)",
         bytes, std::min(context, step_rows), cost(least));
  int64_t low = least, high = std::max(least, sequences * pages_for(context));
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (cost(middle) <= bytes)
      low = middle;
    else
      high = middle - 1;
  }
  return plan(low);
}

KvPool::KvPool(const KvShape& shape, std::vector<int64_t> pages, int64_t step_rows)
    : shape_(shape), step_rows_(step_rows) {
  STRATA_ASSERT(pages.size() == shape.groups.size());
  for (size_t g = 0; g < pages.size(); ++g) {
    const auto size = static_cast<size_t>(pages[g] * shape_.page_bytes(g));
    groups_.push_back({PageAllocator(pages[g]), 0, AlignedBuffer(size, HugePages::advise)});
  }
}

const KvPool::Sequence& KvPool::sequence(int32_t cache) const {
  STRATA_ASSERT(is_open(cache));
  return sequences_[static_cast<size_t>(cache)];
}
KvPool::Sequence& KvPool::sequence(int32_t cache) {
  STRATA_ASSERT(is_open(cache));
  return sequences_[static_cast<size_t>(cache)];
}

bool KvPool::is_open(int32_t cache) const {
  return cache >= 0 && static_cast<size_t>(cache) < sequences_.size() &&
         sequences_[static_cast<size_t>(cache)].open;
}

int32_t KvPool::create() {
  if (free_handles_.empty()) {
    free_handles_.push_back(static_cast<int32_t>(sequences_.size()));
    sequences_.emplace_back().groups.resize(groups_.size());
    free_handles_.reserve(sequences_.size());
  }
  const int32_t cache = free_handles_.back();
  free_handles_.pop_back();
  sequences_[static_cast<size_t>(cache)].open = true;
  return cache;
}

void KvPool::release(int32_t cache) {
  Sequence& s = sequence(cache);
  for (size_t g = 0; g < groups_.size(); ++g) {
    set_promise(s, g, 0);
    for (const int32_t page : s.groups[g].table)
      if (page >= 0) groups_[g].pages.release(page);
    s.groups[g].table.clear();  // keeps its memory for the next sequence
    s.groups[g].dropped = 0;
  }
  s.length = 0;
  s.reserved = 0;
  s.open = false;
  free_handles_.push_back(cache);
}

int64_t KvPool::promise_for(const Sequence& s, size_t group, int64_t tokens) const {
  const Held& held = s.groups[group];
  const int64_t have = static_cast<int64_t>(held.table.size()) - held.dropped;
  const int64_t to_come = pages_for(tokens) - static_cast<int64_t>(held.table.size());
  const int64_t at_once = shape_.most_pages(group, tokens, step_rows_);
  return std::max<int64_t>(0, std::min(to_come, at_once - have));
}

void KvPool::set_promise(Sequence& s, size_t group, int64_t pages) {
  groups_[group].promised += pages - s.groups[group].promised;
  s.groups[group].promised = pages;
}

int64_t KvPool::unpromised_pages(size_t group) const {
  return groups_[group].pages.free() - groups_[group].promised;
}

bool KvPool::reserve(int32_t cache, int64_t tokens) {
  Sequence& s = sequence(cache);
  for (size_t g = 0; g < groups_.size(); ++g)
    if (promise_for(s, g, tokens) - s.groups[g].promised > unpromised_pages(g)) return false;
  s.reserved = tokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    set_promise(s, g, promise_for(s, g, tokens));
    s.groups[g].table.reserve(static_cast<size_t>(pages_for(tokens)));
  }
  return true;
}

void KvPool::drop_behind_window(Sequence& s, size_t group) {
  const int64_t window = shape_.groups[group].window;
  if (window == 0) return;
  Held& held = s.groups[group];
  // The next query, at position `length`, sees positions above length - window.
  const int64_t unseen = std::max<int64_t>(0, s.length - window + 1) / kPageTokens;
  for (; held.dropped < std::min<int64_t>(unseen, static_cast<int64_t>(held.table.size()));
       ++held.dropped) {
    groups_[group].pages.release(held.table[static_cast<size_t>(held.dropped)]);
    held.table[static_cast<size_t>(held.dropped)] = -1;
  }
  set_promise(s, group, promise_for(s, group, s.reserved));
}

bool KvPool::append(int32_t cache, int64_t count) {
  Sequence& s = sequence(cache);
  const int64_t pages = pages_for(s.length + count);
  for (size_t g = 0; g < groups_.size(); ++g) drop_behind_window(s, g);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t missing = pages - static_cast<int64_t>(s.groups[g].table.size());
    if (missing > unpromised_pages(g) + s.groups[g].promised) return false;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<int32_t>& table = s.groups[g].table;
    while (static_cast<int64_t>(table.size()) < pages) {
      const std::optional<int32_t> page = groups_[g].pages.allocate();
      STRATA_ASSERT(page.has_value());
      table.push_back(*page);
    }
    set_promise(s, g, promise_for(s, g, s.reserved));
  }
  s.length += count;
  return true;
}

std::byte* KvPool::layer_base(size_t group, int layer_in_group) const {
  return groups_[group].memory.as<std::byte>() + layer_in_group * shape_.layer_page_bytes();
}

int64_t KvPool::longest_sequence() const {
  int64_t longest = INT64_MAX;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t total = groups_[g].pages.total();
    if (shape_.most_pages(g, INT64_MAX / 2, step_rows_) > total)
      longest = std::min(longest, total * kPageTokens);
  }
  return longest;
}

int64_t KvPool::total_pages() const {
  return std::accumulate(groups_.begin(), groups_.end(), int64_t{0},
                         [](int64_t sum, const Group& g) { return sum + g.pages.total(); });
}

int64_t KvPool::used_pages() const {
  return std::accumulate(groups_.begin(), groups_.end(), int64_t{0},
                         [](int64_t sum, const Group& g) { return sum + g.pages.used(); });
}

uint64_t KvPool::bytes() const {
  return std::accumulate(groups_.begin(), groups_.end(), uint64_t{0},
                         [](uint64_t sum, const Group& g) { return sum + g.memory.size(); });
}

}  // namespace strata
