#pragma once

// Bodies of attention.h, once for all levels; included by isa_<level>_attention.cpp after its Vec.
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/math.inl.h"

namespace strata {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kPanel = kPanelTokens;  // columns of a panel: tokens, or as many dimensions
constexpr int kPanelVecs = kPanel / kLanes;

// Panels that kRows rows are multiplied with at a time: as many as there are registers for sums,
// since each sum waits for its last product and each broadcast serves all of them. With the columns
// and one broadcast they fill the 16 registers of AVX2, or 29 of 32.
constexpr int kSums = kLanes == 16 ? 24 : 12;
constexpr int panels_of(int rows) {
  const int panels = kSums / (rows * kPanelVecs);
  return panels >= 4 ? 4 : panels >= 2 ? 2 : 1;
}

template <int kRows, int kPanels>
using Tile = Vec[kRows][kPanels * kPanelVecs];

// acc[r][16 p ..] += sum over i < n of a[r][i] * b[p][i * ldb ..][..16], products added in order of
// i. Reading b as stored costs conversions, which other ports do. Where `ahead` is given, as many
// bytes from each ahead[p] on as lie in b[p] twice go to the second-level cache meanwhile (the
// first has no room for a chunk beside the one at work).
template <int kRows, int kPanels, class Element>
inline void multiply_add(Tile<kRows, kPanels>& acc, const float* const* a,
                         const Element* const (&b)[kPanels], int64_t ldb, int64_t n,
                         const char* const* ahead = nullptr) {
  constexpr int64_t kAhead = 2 * kPanel * sizeof(Element);
  for (int64_t i = 0; i < n; ++i) {
    if (ahead != nullptr)
      for (int p = 0; p < kPanels; ++p)
        for (int64_t line = 0; line < kAhead; line += 64)
          __builtin_prefetch(ahead[p] + i * kAhead + line, 0, 2);
    Vec columns[kPanels * kPanelVecs];
    for (int p = 0; p < kPanels; ++p)
      for (int j = 0; j < kPanelVecs; ++j)
        columns[p * kPanelVecs + j] = load_as_float(b[p] + i * ldb + j * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec x = broadcast(a[r][i]);
      for (int j = 0; j < kPanels * kPanelVecs; ++j) acc[r][j] = fma(x, columns[j], acc[r][j]);
    }
  }
}

template <int kRows, int kPanels>
inline void clear(Tile<kRows, kPanels>& acc) {
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kPanels * kPanelVecs; ++j) acc[r][j] = zero();
}

// fn(Panels<n>, first) for groups of n panels that make up first .. last - 1: of kMost as long as
// there are so many, then of half as many.
template <int kPanels>
struct Panels {
  static constexpr int kCount = kPanels;
};
template <int kMost, class Fn>
inline void in_groups(int first, int last, const Fn& fn) {
  for (; last - first >= kMost; first += kMost) fn(Panels<kMost>{}, first);
  if constexpr (kMost > 1) in_groups<kMost / 2>(first, last, fn);
}

template <class Element>
inline const Element* head_page(const KvHead& kv, int64_t page) {
  return reinterpret_cast<const Element*>(static_cast<const char*>(kv.base) +
                                          kv.pages[page - kv.first_page] * kv.page_stride);
}

inline bool is_there(const KvHead& kv, int64_t page) { return kv.pages[page - kv.first_page] >= 0; }

inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

// Consecutive tokens, from the chunk's start.
struct Tokens {
  int from = 0, to = 0;
  bool any() const { return from < to; }
};

// What one query sees of a chunk; `from` may lie behind the chunk and `to` before it.
inline Tokens seen_of_chunk(const AttentionQueries& queries, int query, int32_t start) {
  return {larger(queries.begin[query] - start, 0),
          smaller(queries.end[query] - start, kChunkTokens)};
}

// Turns one query's scores [64] into weights e^(scale s - m) in place, 0 for what it does not see;
// returns m and their sum.
inline void chunk_softmax(float* s, const Tokens& seen, float scale, float soft_cap, float& m,
                          float& l) {
  const float lowest = -__builtin_inff();
  const Vec factor = broadcast(scale);
  Vec largest = broadcast(lowest);
  for (int t = 0; t < kChunkTokens; t += kLanes) store(s + t, mul(load(s + t), factor));
  if (soft_cap > 0) {
    const Vec cap = broadcast(soft_cap);
    for (int t = 0; t < kChunkTokens; t += kLanes)
      store(s + t, mul(cap, tanh(div(load(s + t), cap))));
  }
  for (int t = 0; t < seen.from; ++t) s[t] = lowest;
  for (int t = seen.to; t < kChunkTokens; ++t) s[t] = lowest;
  for (int t = 0; t < kChunkTokens; t += kLanes) largest = max(largest, load(s + t));
  m = reduce_max(largest);
  const Vec shift = broadcast(m);
  Vec sum = zero();
  for (int t = 0; t < kChunkTokens; t += kLanes) {
    const Vec weight = exp(sub(load(s + t), shift));
    store(s + t, weight);
    sum = add(sum, weight);
  }
  l = reduce_add(sum);
}

// chunk() for kRows queries from `first` on.
template <int kRows, class Element>
void chunk_tile(const KvHead& kv, const AttentionQueries& queries, int first, int32_t chunk,
                const AttentionSums& out) {
  Tokens seen[kRows];
  Tokens tile{kChunkTokens, 0};  // what any query sees
  for (int r = 0; r < kRows; ++r) {
    seen[r] = seen_of_chunk(queries, first + r, chunk * kChunkTokens);
    out.m[first + r] = -__builtin_inff();
    out.l[first + r] = 0;
    if (!seen[r].any()) continue;
    tile = {smaller(tile.from, seen[r].from), larger(tile.to, seen[r].to)};
  }
  if (!tile.any()) return;
  constexpr int kMostPanels = panels_of(kRows);
  const int page_tokens = kv.page.tokens, head_size = kv.page.head_size;
  const int pages = kChunkTokens / page_tokens;
  const int64_t chunk_page = int64_t{chunk} * pages;

  // Panels of tokens that some query sees; what else lies there may never have been written. In a
  // page of 8 half of a panel is what follows a row there, values behind the last one. Scores of
  // that are written over by the next page's, or nobody sees them.
  float scores[kRows][kChunkTokens + kPanel / 2] = {};
  const int panel_tokens = smaller(kPanel, page_tokens);
  const auto seen_panels = [&](int tokens) {
    return Tokens{tile.from / tokens, (tile.to + tokens - 1) / tokens};
  };
  const bool fetches = kv.next_chunk >= 0 && first == 0 && page_tokens >= kPanel;
  const Tokens key_panels = seen_panels(panel_tokens);
  in_groups<kMostPanels>(key_panels.from, key_panels.to, [&](auto group, int panel) {
    constexpr int kPanels = decltype(group)::kCount;
    const Element* keys[kPanels];
    const char* ahead[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      const int start = (panel + p) * panel_tokens, slot = start % page_tokens;
      keys[p] = head_page<Element>(kv, chunk_page + start / page_tokens) + slot;
      if (!fetches) continue;
      const int64_t next = int64_t{kv.next_chunk} * pages + start / page_tokens;
      ahead[p] = reinterpret_cast<const char*>(
          is_there(kv, next) ? head_page<Element>(kv, next) + 2 * slot * head_size : keys[p]);
    }
    Tile<kRows, kPanels> acc;
    clear<kRows, kPanels>(acc);
    multiply_add<kRows, kPanels>(acc, queries.q + first, keys, page_tokens, head_size,
                                 fetches ? ahead : nullptr);
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPanels; ++p)
        for (int j = 0; j < kPanelVecs; ++j)
          store(&scores[r][(panel + p) * panel_tokens + j * kLanes], acc[r][p * kPanelVecs + j]);
  });
  if (kv.added_keys != nullptr) {
    const Tokens added_panels = seen_panels(kPanel);
    in_groups<kMostPanels>(added_panels.from, added_panels.to, [&](auto group, int panel) {
      constexpr int kPanels = decltype(group)::kCount;
      const F32* added[kPanels];
      for (int p = 0; p < kPanels; ++p)
        added[p] =
            reinterpret_cast<const F32*>(kv.added_keys) + int64_t{panel + p} * kPanel * head_size;
      Tile<kRows, kPanels> acc;
      for (int r = 0; r < kRows; ++r)
        for (int j = 0; j < kPanels * kPanelVecs; ++j)
          acc[r][j] = load(&scores[r][panel * kPanel + j * kLanes]);
      multiply_add<kRows, kPanels>(acc, queries.q_added + first, added, kPanel, head_size);
      for (int r = 0; r < kRows; ++r)
        for (int j = 0; j < kPanels * kPanelVecs; ++j)
          store(&scores[r][panel * kPanel + j * kLanes], acc[r][j]);
    });
  }

  for (int r = 0; r < kRows; ++r) {
    if (seen[r].any()) {
      chunk_softmax(scores[r], seen[r], queries.scale, queries.soft_cap, out.m[first + r],
                    out.l[first + r]);
    } else {
      for (float& weight : scores[r]) weight = 0;
    }
  }

  const int padded = padded_head(head_size);
  in_groups<kMostPanels>(0, padded / kPanel, [&](auto group, int panel) {
    constexpr int kPanels = decltype(group)::kCount;
    Tile<kRows, kPanels> acc;
    clear<kRows, kPanels>(acc);
    for (int page = tile.from / page_tokens; page * page_tokens < tile.to; ++page) {
      const int start = page * page_tokens;
      const Tokens tokens{larger(tile.from, start), smaller(tile.to, start + page_tokens)};
      const float* weights[kRows];
      for (int r = 0; r < kRows; ++r) weights[r] = scores[r] + tokens.from;
      const Element* values[kPanels];
      for (int p = 0; p < kPanels; ++p)
        values[p] = head_page<Element>(kv, chunk_page + page) + key_elements(kv.page) +
                    (tokens.from - start) * padded + (panel + p) * kPanel;
      multiply_add<kRows, kPanels>(acc, weights, values, padded, tokens.to - tokens.from);
    }
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kPanels * kPanelVecs; ++j)
        store(out.o + int64_t{first + r} * padded + panel * kPanel + j * kLanes, acc[r][j]);
  });
}

template <class Element>
void chunk(const KvHead& kv, const AttentionQueries& queries, int32_t index,
           const AttentionSums& out) noexcept {
  // Tiles of about the same size: 7 queries are 4 and 3, as a tile of one keeps few adders busy.
  int tiles = (queries.count + kQueryTile - 1) / kQueryTile;
  for (int i = 0, rows; i < queries.count; i += rows, --tiles) {
    rows = (queries.count - i + tiles - 1) / tiles;
    switch (rows) {
      case 1:
        chunk_tile<1, Element>(kv, queries, i, index, out);
        break;
      case 2:
        chunk_tile<2, Element>(kv, queries, i, index, out);
        break;
      case 3:
        chunk_tile<3, Element>(kv, queries, i, index, out);
        break;
      case 4:
        chunk_tile<4, Element>(kv, queries, i, index, out);
        break;
      case 5:
        chunk_tile<5, Element>(kv, queries, i, index, out);
        break;
      default:
        chunk_tile<6, Element>(kv, queries, i, index, out);
        break;
    }
  }
}

// Rounded, but to a number: what is beyond those of f16 becomes the largest of them, since an
// infinity times a weight of 0 would reach queries that do not see the token.
template <class Element>
void store_element(float x, Element& out) {
  constexpr float kLargest = 65504;
  constexpr float kInfinity = __builtin_inff();
  if constexpr (std::is_same_v<Element, F16>) {
    if (x > kLargest && x < kInfinity) x = kLargest;
    if (x < -kLargest && x > -kInfinity) x = -kLargest;
  }
  from_float(x, out);
}

template <class Element>
void store_token(const float* k, const float* v, const PageShape& page, int slot,
                 void* head_page) noexcept {
  const int padded = padded_head(page.head_size);
  auto* keys = static_cast<Element*>(head_page);
  Element* values = keys + key_elements(page) + int64_t{slot} * padded;
  for (int d = 0; d < page.head_size; ++d) {
    store_element(k[d], keys[d * page.tokens + slot]);
    store_element(v[d], values[d]);
  }
  for (int d = page.head_size; d < padded; ++d) store_element(0.0f, values[d]);
}

void merge(const AttentionSums& into, const AttentionSums& part, int count,
           int head_size) noexcept {
  const int padded = padded_head(head_size);
  for (int i = 0; i < count; ++i) {
    if (part.l[i] == 0) continue;  // a chunk it does not see
    const float m = part.m[i] > into.m[i] ? part.m[i] : into.m[i];
    const Vec keep = exp(broadcast(into.m[i] - m));
    const Vec take = exp(broadcast(part.m[i] - m));
    into.m[i] = m;
    into.l[i] = first_lane(fma(broadcast(into.l[i]), keep, mul(broadcast(part.l[i]), take)));
    float* o = into.o + int64_t{i} * padded;
    const float* p = part.o + int64_t{i} * padded;
    for (int d = 0; d < padded; d += kLanes)
      store(o + d, fma(load(o + d), keep, mul(load(p + d), take)));
  }
}

void finish(const AttentionSums& sums, int count, int head_size, float* const* y) noexcept {
  const int padded = padded_head(head_size);
  for (int i = 0; i < count; ++i) {
    const float* o = sums.o + int64_t{i} * padded;
    const Vec l = broadcast(sums.l[i]);
    const bool none = sums.l[i] == 0;
    int d = 0;
    for (; d + kLanes <= head_size; d += kLanes)
      store(y[i] + d, none ? zero() : div(load(o + d), l));
    if (d < head_size) store_partial(y[i] + d, none ? zero() : div(load(o + d), l), head_size - d);
  }
}

template <class Element>
constexpr AttentionKernels kTable = {chunk<Element>, store_token<Element>, merge, finish, nullptr,
                                     nullptr};

}  // namespace
}  // namespace strata
