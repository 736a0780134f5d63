#pragma once

// Bodies of attention.h, once for all levels; included by isa_<level>_attention.cpp after its Vec.
#include "kernels/attention.h"
#include "kernels/math.inl.h"

namespace strata {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kPanel = kPanelTokens;  // columns of a register tile: tokens, or as many dimensions
constexpr int kPanelVecs = kPanel / kLanes;

// acc[r][..16] += sum over i < n of a[r][i] * b[i * ldb ..][..16], products added in order of i.
// kQueryTile = 6 rows of two AVX2 vectors are 12 accumulators; with the two of b and one broadcast
// they fill the 16 registers. Reading b as stored costs conversions, which other ports do.
template <int kRows, class Element>
inline void multiply_add(Vec (&acc)[kRows][kPanelVecs], const float* const* a, const Element* b,
                         int64_t ldb, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Vec columns[kPanelVecs];
    for (int j = 0; j < kPanelVecs; ++j) columns[j] = load_as_float(b + i * ldb + j * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec x = broadcast(a[r][i]);
      for (int j = 0; j < kPanelVecs; ++j) acc[r][j] = fma(x, columns[j], acc[r][j]);
    }
  }
}

template <class Element>
inline const Element* head_page(const KvHead& kv, int64_t page) {
  return reinterpret_cast<const Element*>(static_cast<const char*>(kv.base) +
                                          kv.pages[page - kv.first_page] * kv.page_stride);
}

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
  const int page_tokens = kv.page.tokens, head_size = kv.page.head_size;
  const int pages = kChunkTokens / page_tokens;
  const int64_t chunk_page = int64_t{chunk} * pages;
  // Those of `count` tokens that some query sees; what else lies there may never have been written.
  const auto seen_of = [&](int start, int count) {
    return Tokens{larger(tile.from, start), smaller(tile.to, start + count)};
  };

  // In a page of 8 half of a panel is what follows a row there, values behind the last one. Scores
  // of that are written over by the next page's, or nobody sees them.
  float scores[kRows][kChunkTokens + kPanel / 2] = {};
  const auto keep_scores = [&](int start, const Vec(&acc)[kRows][kPanelVecs]) {
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kPanelVecs; ++j) store(&scores[r][start + j * kLanes], acc[r][j]);
  };
  for (int page = 0; page < pages; ++page)
    for (int slot = 0; slot < page_tokens; slot += kPanel) {
      const int start = page * page_tokens + slot;
      if (!seen_of(start, smaller(kPanel, page_tokens)).any()) continue;
      Vec acc[kRows][kPanelVecs];
      for (int r = 0; r < kRows; ++r)
        for (int j = 0; j < kPanelVecs; ++j) acc[r][j] = zero();
      multiply_add<kRows>(acc, queries.q + first, head_page<Element>(kv, chunk_page + page) + slot,
                          page_tokens, head_size);
      keep_scores(start, acc);
    }
  for (int start = 0; kv.added_keys != nullptr && start < kChunkTokens; start += kPanel) {
    if (!seen_of(start, kPanel).any()) continue;
    Vec acc[kRows][kPanelVecs];
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kPanelVecs; ++j) acc[r][j] = load(&scores[r][start + j * kLanes]);
    const auto* added = reinterpret_cast<const F32*>(kv.added_keys) + int64_t{start} * head_size;
    multiply_add<kRows>(acc, queries.q_added + first, added, kPanel, head_size);
    keep_scores(start, acc);
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
  const int64_t keys = key_elements(kv.page);
  for (int d = 0; d < padded; d += kPanel) {
    Vec acc[kRows][kPanelVecs];
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kPanelVecs; ++j) acc[r][j] = zero();
    for (int page = 0; page < pages; ++page) {
      const Tokens tokens = seen_of(page * page_tokens, page_tokens);
      if (!tokens.any()) continue;
      const float* weights[kRows];
      for (int r = 0; r < kRows; ++r) weights[r] = scores[r] + tokens.from;
      multiply_add<kRows>(acc, weights,
                          head_page<Element>(kv, chunk_page + page) + keys +
                              (tokens.from - page * page_tokens) * padded + d,
                          padded, tokens.to - tokens.from);
    }
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kPanelVecs; ++j)
        store(out.o + int64_t{first + r} * padded + d + j * kLanes, acc[r][j]);
  }
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

template <class Element>
void store_token(const float* k, const float* v, const PageShape& page, int slot,
                 void* head_page) noexcept {
  const int padded = padded_head(page.head_size);
  auto* keys = static_cast<Element*>(head_page);
  Element* values = keys + key_elements(page) + int64_t{slot} * padded;
  for (int d = 0; d < page.head_size; ++d) {
    from_float(k[d], keys[d * page.tokens + slot]);
    from_float(v[d], values[d]);
  }
  for (int d = page.head_size; d < padded; ++d) from_float(0.0f, values[d]);
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
