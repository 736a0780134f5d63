#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "engine/kv_policy.h"
#include "engine/page_allocator.h"
#include "numeric/kv_type.h"

namespace strata {

// The shape of a model's KV cache: what every layer keeps per token, and which layers share page
// tables because they forget alike.
struct KvShape {
  struct Group {
    int64_t window = 0;  // positions a query sees, its own included; 0: all
    int layers = 0;
    int64_t sinks = 0;  // with a window: the first so many positions are seen too

    // What a sequence under `policy` sees in these layers: the narrower of both.
    KvPolicy narrowed(const KvPolicy& policy) const {
      const bool narrows = !policy.is_full() && (window == 0 || policy.window < window);
      return narrows ? policy : KvPolicy{window, sinks};
    }
  };
  std::vector<Group> groups;
  int kv_heads = 0;   // Hk
  int head_size = 0;  // Dh
  KvType type = KvType::f16;
  int page_tokens = kDefaultPageTokens;  // S: one of kPageSizes

  int64_t pages_for(int64_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  // Of a page of one layer: all heads' keys and values.
  int64_t layer_page_bytes() const;
  int64_t page_bytes(size_t group) const { return layer_page_bytes() * groups[group].layers; }
  // The most pages a sequence of `tokens` tokens ever holds at once in a group, when it is fed at
  // most `step_rows` tokens at a time.
  int64_t most_pages(size_t group, int64_t tokens, int64_t step_rows) const;
  // The same of a sequence that sees `span`.
  int64_t most_pages(const KvPolicy& span, int64_t tokens, int64_t step_rows) const;
  // Pages before this one hold nothing of the window of a query at position `length` or later.
  int64_t first_page_of_window(const KvPolicy& span, int64_t length) const;
};

// Pages of each group, such that `bytes` hold them all: as many as possible in the groups that keep
// everything, and in windowed ones no more than `sequences` sequences of `context` tokens can use.
// Throws resource_exhausted, with both sizes, when that is less than one step of one sequence.
std::vector<int64_t> plan_kv_pages(const KvShape& shape, uint64_t bytes, int64_t context,
                                   int64_t sequences, int64_t step_rows);

// Paged memory of keys and values, and the page tables of the sequences in it. A sequence's page
// table of a group maps positions S i .. S i + S - 1 to page table[i]; pages wholly behind the
// window and without sinks are given back and their entries are -1. Positions are only ever
// appended. A sequence may see less than its group's layers would (KvPolicy).
//
// Pages may be shared by sequences and by the prefix cache. Copy on write: only full pages are
// shared, since nobody writes to them; whoever takes over a part of a page gets a copy of it at
// once, because the next thing it does is write there. So a sequence writes to its own pages only.
//
// Pages that only the prefix cache holds count as available: the reclaimer gives them back one by
// one when no page is free.
//
// Memory: page p of group g is a block of page_bytes(g), for each layer of the group in order, for
// each head, a head page as kernels/attention.h lays it out. It is touched only when written.
//
// Every operation is O(pages it adds or drops). Not for use by several threads at once.
class KvPool {
 public:
  // pages: of each group; step_rows: the most tokens append() will be asked for at a time.
  KvPool(const KvShape& shape, std::vector<int64_t> pages, int64_t step_rows);

  // An empty sequence. expected_tokens: page tables up to this length never allocate memory.
  int32_t create(int64_t expected_tokens = 0, const KvPolicy& policy = {});
  // Gives all pages back; the handle may be handed out again.
  void release(int32_t cache);
  // Gives the empty sequence the first `tokens` positions of the page tables (one of each group),
  // sharing full pages and copying a last partial one. Entries behind a window are not looked at.
  // false, and nothing changes, when there is no page for the copy.
  [[nodiscard]] bool share(int32_t cache, int64_t tokens,
                           const std::vector<std::span<const int32_t>>& tables);
  // share() of the positions of another sequence with the same policy; false also when a window has
  // dropped some of them.
  [[nodiscard]] bool fork(int32_t cache, int32_t from, int64_t tokens);
  // Promises that append() will succeed up to `tokens` positions in all. false, and nothing
  // changes, when the pages not promised to others do not suffice.
  [[nodiscard]] bool reserve(int32_t cache, int64_t tokens);
  // Takes the pages for `tokens` positions in all, of which the sequence may hold fewer. false, and
  // nothing is taken, when pages are missing; never within what was reserved.
  [[nodiscard]] bool grow(int32_t cache, int64_t tokens);
  // Adds `count` positions, growing as needed; false, and no position is added, when grow() fails.
  [[nodiscard]] bool append(int32_t cache, int64_t count);

  bool is_open(int32_t cache) const;
  int64_t length(int32_t cache) const { return sequence(cache).length; }
  std::span<const int32_t> page_table(int32_t cache, size_t group) const {
    return sequence(cache).groups[group].table;
  }

  // What the sequence sees in a group.
  const KvPolicy& span(int32_t cache, size_t group) const {
    return sequence(cache).groups[group].span;
  }
  // The most positions its next token can see in any group; INT64_MAX: all.
  int64_t most_seen(int32_t cache) const;
  // The most pages of a group that a sequence of `tokens` positions ever holds at once.
  int64_t most_pages(size_t group, int64_t tokens) const {
    return shape_.most_pages(group, tokens, step_rows_);
  }
  // Pages of a group that grow() up to `tokens` positions, in steps of at most step_rows, will need
  // beyond those it holds.
  int64_t missing_pages(int32_t cache, size_t group, int64_t tokens) const;

  // Pages before this one hold nothing that a query at position `length` or later of a sequence
  // without a policy of its own sees.
  int64_t first_seen_page(size_t group, int64_t length) const;

  // ---- For the prefix cache ----
  // Asked for one page of a group when none is free; returns whether it gave one back.
  using Reclaimer = std::function<bool(size_t group)>;
  void set_reclaimer(Reclaimer reclaim) { reclaim_ = std::move(reclaim); }
  void keep(size_t group, int32_t page) { groups_[group].pages.keep(page); }
  void forget(size_t group, int32_t page) { groups_[group].pages.forget(page); }
  // Nobody but the prefix cache holds it.
  bool is_cached(size_t group, int32_t page) const { return groups_[group].pages.is_cached(page); }
  // A free page with the caller's reference, for contents from a file; nullopt: none is free or
  // they are promised. And the end of that reference.
  [[nodiscard]] std::optional<int32_t> new_page(size_t group);
  void release_page(size_t group, int32_t page) { groups_[group].pages.release(page); }
  // The bytes of a page in all layers of its group.
  std::span<std::byte> page_memory(size_t group, int32_t page) const {
    const auto size = static_cast<size_t>(shape_.page_bytes(group));
    return {layer_base(group, 0) + shape_.page_bytes(group) * page, size};
  }
  // ---- For swapping ----
  // Adds positions up to `tokens` in all, with pages for what the next token will see of them: own
  // ones, which the caller fills (they need not begin at a page's first token). false, and nothing
  // is taken, when pages are missing.
  [[nodiscard]] bool extend(int32_t cache, int64_t tokens);
  // Calls use(group, index in the page table, page) for every page that the sequence's next token
  // sees, by group and index.
  template <typename Use>
  void for_each_seen_page(int32_t cache, Use use) const {
    for (size_t g = 0; g < groups_.size(); ++g)
      for_each_seen_index(sequence(cache), g, [&](int64_t index) {
        use(g, index, sequence(cache).groups[g].table[static_cast<size_t>(index)]);
      });
  }
  int64_t seen_bytes(int32_t cache) const;  // of those pages

  // Puts `page`, which holds the same keys and values, in the place of entry `index`.
  void replace(int32_t cache, size_t group, size_t index, int32_t page);

  const KvShape& shape() const { return shape_; }
  // Memory of layer `layer_in_group` in page 0; page p lies page_bytes(group) * p behind it.
  std::byte* layer_base(size_t group, int layer_in_group) const;

  // The longest sequence that fits when it is alone.
  int64_t longest_sequence() const;
  int64_t total_pages() const;
  int64_t used_pages() const;    // held by sequences
  int64_t cached_pages() const;  // held by the prefix cache alone
  // Pages that are free or only cached, and promised to nobody.
  int64_t available_pages(size_t group) const;
  uint64_t bytes() const;

  // ---- In bytes ----
  int64_t held_bytes() const;    // of pages held by sequences
  int64_t cached_bytes() const;  // of pages held by the prefix cache alone
  // Of the positions that the sequence still sees; a shared one counts for each of its sequences.
  int64_t needed_bytes(int32_t cache) const;
  // What the sequence holds or has reserved and could do without: the rest of its last pages,
  // positions behind its window, its own copy of positions that others held when it began, and
  // pages promised to it that it has not taken.
  int64_t waste_bytes(int32_t cache) const;
  // Of `tokens` positions in all layers.
  int64_t bytes_of(int64_t tokens) const;

 private:
  struct Held {
    KvPolicy span;
    std::vector<int32_t> table;
    int64_t dropped = 0;   // entries of `table` that are -1: those behind the sinks' pages
    int64_t promised = 0;  // pages it may still allocate of those reserved for it
  };
  struct Sequence {
    bool open = false;
    int64_t length = 0;
    int64_t reserved = 0;  // tokens
    int64_t copied = 0;    // tokens, at the end of what it shared
    std::vector<Held> groups;
  };
  struct Group {
    PageAllocator pages;
    int64_t promised = 0;  // sum over sequences
    AlignedBuffer memory;
  };

  const Sequence& sequence(int32_t cache) const;
  Sequence& sequence(int32_t cache);
  template <typename Use>
  void for_each_seen_index(const Sequence& s, size_t group, Use use) const {
    const auto [sinks, window, end] = seen_pages(s, group);
    for (int64_t i = 0; i < sinks; ++i) use(i);
    for (int64_t i = window; i < end; ++i) use(i);
  }
  // Entries of the page table that the next token sees: 0 .. sinks - 1 and window .. end - 1.
  struct SeenPages {
    int64_t sinks = 0, window = 0, end = 0;
  };
  SeenPages seen_pages(const Sequence& s, size_t group) const;
  void release_pages(Sequence& s);
  std::optional<int32_t> allocate(size_t group);
  int64_t promise_for(const Sequence& s, size_t group, int64_t tokens) const;
  void set_promise(Sequence& s, size_t group, int64_t pages);
  void drop_behind_window(Sequence& s, size_t group);

  KvShape shape_;
  int64_t step_rows_;
  std::vector<Group> groups_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> free_handles_;
  Reclaimer reclaim_;
};

}  // namespace strata
