#include "engine/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/attention.h"

namespace strata {

int64_t KvShape::layer_page_bytes() const {
  return kv_heads * head_page_bytes(type, {head_size, page_tokens});
}

int64_t KvShape::first_page_of_window(const KvPolicy& span, int64_t length) const {
  return span.is_full() ? 0 : std::max<int64_t>(0, length - span.window + 1) / page_tokens;
}

int64_t KvShape::most_pages(size_t group, int64_t tokens, int64_t step_rows) const {
  return most_pages(groups[group].narrowed({}), tokens, step_rows);
}

int64_t KvShape::most_pages(const KvPolicy& span, int64_t tokens, int64_t step_rows) const {
  if (span.is_full()) return pages_for(tokens);
  // A step needs the window before its first row, and its rows; both ends may cut a page.
  return std::min(pages_for(tokens),
                  pages_for(span.sinks) + pages_for(span.window + step_rows) + 1);
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
  const int64_t least = shape.pages_for(std::min(context, step_rows));
  if (cost(least) > bytes)
    fail(ErrorCode::resource_exhausted,
         "KV cache: {} bytes are less than one step of {} tokens needs, {} bytes; give it more "
         "(--kv-memory) or make steps smaller (--batch-tokens)",
         bytes, std::min(context, step_rows), cost(least));
  int64_t low = least, high = std::max(least, sequences * shape.pages_for(context));
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
  STRATA_ASSERT(pages.size() == shape.groups.size() && is_page_size(shape.page_tokens));
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

int32_t KvPool::create(int64_t expected_tokens, const KvPolicy& policy) {
  if (free_handles_.empty()) {
    free_handles_.push_back(static_cast<int32_t>(sequences_.size()));
    sequences_.emplace_back().groups.resize(groups_.size());
    free_handles_.reserve(sequences_.size());
  }
  const int32_t cache = free_handles_.back();
  free_handles_.pop_back();
  Sequence& s = sequences_[static_cast<size_t>(cache)];
  s.open = true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    s.groups[g].span = shape_.groups[g].narrowed(policy);
    s.groups[g].table.reserve(static_cast<size_t>(shape_.pages_for(expected_tokens)));
  }
  return cache;
}

void KvPool::release(int32_t cache) {
  Sequence& s = sequence(cache);
  release_pages(s);
  s.open = false;
  free_handles_.push_back(cache);
}

void KvPool::release_pages(Sequence& s) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    set_promise(s, g, 0);
    for (const int32_t page : s.groups[g].table)
      if (page >= 0) groups_[g].pages.release(page);
    s.groups[g].table.clear();  // keeps its memory for the next sequence
    s.groups[g].dropped = 0;
  }
  s.length = 0;
  s.reserved = 0;
  s.copied = 0;
}

void KvPool::replace(int32_t cache, size_t group, size_t index, int32_t page) {
  int32_t& entry = sequence(cache).groups[group].table[index];
  STRATA_ASSERT(entry >= 0);
  groups_[group].pages.retain(page);
  groups_[group].pages.release(entry);
  entry = page;
}

int64_t KvPool::first_seen_page(size_t group, int64_t length) const {
  return shape_.first_page_of_window(shape_.groups[group].narrowed({}), length);
}

int64_t KvPool::most_seen(int32_t cache) const {
  int64_t most = 0;
  for (const Held& held : sequence(cache).groups)
    most = std::max(most, held.span.is_full() ? INT64_MAX : held.span.sinks + held.span.window);
  return most;
}

std::optional<int32_t> KvPool::allocate(size_t group) {
  PageAllocator& pages = groups_[group].pages;
  if (pages.free() == 0 && reclaim_) reclaim_(group);
  return pages.allocate();
}

std::optional<int32_t> KvPool::new_page(size_t group) {
  PageAllocator& pages = groups_[group].pages;
  if (pages.free() == 0 || available_pages(group) <= 0) return std::nullopt;
  return pages.allocate();
}

bool KvPool::share(int32_t cache, int64_t tokens,
                   const std::vector<std::span<const int32_t>>& tables) {
  Sequence& s = sequence(cache);
  STRATA_ASSERT(s.length == 0 && s.groups[0].table.empty() && tables.size() == groups_.size());
  const int64_t full = tokens / shape_.page_tokens;
  const bool partial = tokens % shape_.page_tokens != 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Held& held = s.groups[g];
    const int64_t sinks = shape_.pages_for(held.span.sinks);
    const int64_t window = shape_.first_page_of_window(held.span, tokens);
    held.dropped = 0;
    for (int64_t i = 0; i < full; ++i) {
      const bool seen = i < sinks || i >= window;
      const int32_t page = seen ? tables[g][static_cast<size_t>(i)] : -1;
      if (seen)
        groups_[g].pages.retain(page);
      else
        ++held.dropped;
      held.table.push_back(page);
    }
  }
  s.length = tokens;
  if (!partial) return true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int32_t source = tables[g][static_cast<size_t>(full)];
    groups_[g].pages.retain(source);  // it must outlive the search for a page
    const std::optional<int32_t> copy =
        available_pages(g) > 0 ? allocate(g) : std::optional<int32_t>();
    if (copy) {
      const auto bytes = static_cast<size_t>(shape_.page_bytes(g));
      std::byte* base = layer_base(g, 0);
      std::memcpy(base + shape_.page_bytes(g) * *copy, base + shape_.page_bytes(g) * source, bytes);
      s.groups[g].table.push_back(*copy);
    }
    groups_[g].pages.release(source);
    if (!copy) {
      release_pages(s);
      return false;
    }
  }
  s.copied = tokens % shape_.page_tokens;
  return true;
}

bool KvPool::fork(int32_t cache, int32_t from, int64_t tokens) {
  const Sequence& source = sequence(from);
  STRATA_ASSERT(tokens <= source.length && cache != from);
  std::vector<std::span<const int32_t>> tables;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Held& held = source.groups[g];
    STRATA_ASSERT(held.span == sequence(cache).groups[g].span);
    if (held.dropped > 0 && shape_.pages_for(held.span.sinks) + held.dropped >
                                shape_.first_page_of_window(held.span, tokens))
      return false;
    tables.emplace_back(source.groups[g].table);
  }
  return share(cache, tokens, tables);
}

int64_t KvPool::missing_pages(int32_t cache, size_t group, int64_t tokens) const {
  return promise_for(sequence(cache), group, tokens);
}

int64_t KvPool::promise_for(const Sequence& s, size_t group, int64_t tokens) const {
  const Held& held = s.groups[group];
  const int64_t have = static_cast<int64_t>(held.table.size()) - held.dropped;
  const int64_t to_come = shape_.pages_for(tokens) - static_cast<int64_t>(held.table.size());
  const int64_t at_once = shape_.most_pages(held.span, tokens, step_rows_);
  return std::max<int64_t>(0, std::min(to_come, at_once - have));
}

void KvPool::set_promise(Sequence& s, size_t group, int64_t pages) {
  groups_[group].promised += pages - s.groups[group].promised;
  s.groups[group].promised = pages;
}

int64_t KvPool::available_pages(size_t group) const {
  const PageAllocator& pages = groups_[group].pages;
  return pages.free() + pages.cached() - groups_[group].promised;
}

bool KvPool::reserve(int32_t cache, int64_t tokens) {
  Sequence& s = sequence(cache);
  for (size_t g = 0; g < groups_.size(); ++g)
    if (promise_for(s, g, tokens) - s.groups[g].promised > available_pages(g)) return false;
  s.reserved = tokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    set_promise(s, g, promise_for(s, g, tokens));
    s.groups[g].table.reserve(static_cast<size_t>(shape_.pages_for(tokens)));
  }
  return true;
}

void KvPool::drop_behind_window(Sequence& s, size_t group) {
  Held& held = s.groups[group];
  if (held.span.is_full()) return;
  const int64_t sinks = shape_.pages_for(held.span.sinks);
  const int64_t end = std::min<int64_t>(shape_.first_page_of_window(held.span, s.length),
                                        static_cast<int64_t>(held.table.size()));
  for (; sinks + held.dropped < end; ++held.dropped) {
    int32_t& page = held.table[static_cast<size_t>(sinks + held.dropped)];
    groups_[group].pages.release(page);
    page = -1;
  }
  set_promise(s, group, promise_for(s, group, s.reserved));
}

bool KvPool::grow(int32_t cache, int64_t tokens) {
  Sequence& s = sequence(cache);
  const int64_t pages = shape_.pages_for(tokens);
  for (size_t g = 0; g < groups_.size(); ++g) drop_behind_window(s, g);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t missing = pages - static_cast<int64_t>(s.groups[g].table.size());
    if (missing > available_pages(g) + s.groups[g].promised) return false;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<int32_t>& table = s.groups[g].table;
    while (static_cast<int64_t>(table.size()) < pages) {
      const std::optional<int32_t> page = allocate(g);
      STRATA_ASSERT(page.has_value());
      table.push_back(*page);
    }
    set_promise(s, g, promise_for(s, g, s.reserved));
  }
  return true;
}

KvPool::SeenPages KvPool::seen_pages(const Sequence& s, size_t group) const {
  const KvPolicy& span = s.groups[group].span;
  SeenPages seen;
  seen.end = shape_.pages_for(s.length);
  seen.sinks = span.is_full() ? 0 : std::min(shape_.pages_for(span.sinks), seen.end);
  seen.window =
      std::min(std::max(seen.sinks, shape_.first_page_of_window(span, s.length)), seen.end);
  return seen;
}

int64_t KvPool::seen_bytes(int32_t cache) const {
  const Sequence& s = sequence(cache);
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto [sinks, window, end] = seen_pages(s, g);
    bytes += (sinks + end - window) * shape_.page_bytes(g);
  }
  return bytes;
}

bool KvPool::extend(int32_t cache, int64_t tokens) {
  Sequence& s = sequence(cache);
  const int64_t before = s.length;
  STRATA_ASSERT(tokens >= before);
  s.length = tokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    int64_t missing = 0;
    for_each_seen_index(s, g, [&](int64_t index) {
      missing += index >= static_cast<int64_t>(s.groups[g].table.size());
    });
    if (missing <= available_pages(g) + s.groups[g].promised) continue;
    s.length = before;
    return false;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    Held& held = s.groups[g];
    drop_behind_window(s, g);
    const auto fill = [&](int64_t end, bool seen) {
      for (auto i = static_cast<int64_t>(held.table.size()); i < end; ++i) {
        held.table.push_back(seen ? allocate(g).value() : -1);
        held.dropped += !seen;
      }
    };
    const auto [sinks, window, end] = seen_pages(s, g);
    fill(sinks, true);
    fill(window, false);
    fill(end, true);
    set_promise(s, g, promise_for(s, g, s.reserved));
  }
  return true;
}

bool KvPool::append(int32_t cache, int64_t count) {
  Sequence& s = sequence(cache);
  if (!grow(cache, s.length + count)) return false;
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
      longest = std::min(longest, total * shape_.page_tokens);
  }
  return longest;
}

int64_t KvPool::total_pages() const {
  return std::accumulate(groups_.begin(), groups_.end(), int64_t{0},
                         [](int64_t sum, const Group& g) { return sum + g.pages.total(); });
}

int64_t KvPool::used_pages() const {
  return std::accumulate(groups_.begin(), groups_.end(), int64_t{0},
                         [](int64_t sum, const Group& g) { return sum + g.pages.held(); });
}

int64_t KvPool::cached_pages() const {
  return std::accumulate(groups_.begin(), groups_.end(), int64_t{0},
                         [](int64_t sum, const Group& g) { return sum + g.pages.cached(); });
}

int64_t KvPool::held_bytes() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    bytes += groups_[g].pages.held() * shape_.page_bytes(g);
  return bytes;
}

int64_t KvPool::cached_bytes() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    bytes += groups_[g].pages.cached() * shape_.page_bytes(g);
  return bytes;
}

int64_t KvPool::needed_bytes(int32_t cache) const {
  const Sequence& s = sequence(cache);
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const KvPolicy& span = s.groups[g].span;
    const int64_t seen = span.is_full() ? s.length : std::min(s.length, span.sinks + span.window);
    bytes += seen * shape_.page_bytes(g) / shape_.page_tokens;
  }
  return bytes;
}

int64_t KvPool::waste_bytes(int32_t cache) const {
  const Sequence& s = sequence(cache);
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Held& held = s.groups[g];
    const int64_t seen =
        held.span.is_full() ? s.length : std::min(s.length, held.span.sinks + held.span.window);
    const int64_t pages = static_cast<int64_t>(held.table.size()) - held.dropped;
    bytes +=
        (pages * shape_.page_tokens - seen + s.copied) * shape_.page_bytes(g) / shape_.page_tokens +
        held.promised * shape_.page_bytes(g);
  }
  return bytes;
}

int64_t KvPool::bytes_of(int64_t tokens) const {
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    bytes += tokens * shape_.page_bytes(g) / shape_.page_tokens;
  return bytes;
}

uint64_t KvPool::bytes() const {
  return std::accumulate(groups_.begin(), groups_.end(), uint64_t{0},
                         [](uint64_t sum, const Group& g) { return sum + g.memory.size(); });
}

}  // namespace strata
