#pragma once

#include <cstdint>

#include "numeric/kv_type.h"

namespace strata {

// Attention over a paged cache, one KV head at a time. Its definition, for prefill, decode and any
// split of the work alike:
//
//   Keys are taken in chunks of 64, aligned to absolute positions. Over the visible keys t of chunk
//   c, in f32:
//     s_t = scale * (q . k_t), the products added in order of dimension, those of an added key
//           behind them; with a soft cap c > 0: c tanh(s_t / c)
//     m_c = max s_t,  l_c = sum e^(s_t - m_c),  o_c = sum e^(s_t - m_c) v_t  (in order of t)
//   and chunks are merged from left to right:
//     m' = max(m, m_c), l' = l e^(m - m') + l_c e^(m_c - m'), o' likewise; result o / l.
//   A chunk without visible keys takes no part; a query without any gives zeros, never NaN.
//   Sinks that the window has left behind are chunks of their own, merged before the window's.
//
// So a query's result depends on nothing but itself and the (finite) keys and values as stored.
// Src: Milakov & Gimelshein 2018 (arXiv:1805.02867); Dao et al. 2022 (arXiv:2205.14135); sinks:
// Xiao et al. 2023 (arXiv:2309.17453); soft cap: Gemma 2 (arXiv:2408.00118).

// Chunks are whole pages, whatever a page's size (kPageSizes): it changes no bit of a result.

inline constexpr int kChunkTokens = 64;
// Neighbouring keys that are multiplied at once.
inline constexpr int kPanelTokens = 16;
inline constexpr int kChunkPanels = kChunkTokens / kPanelTokens;

struct PageShape {
  int head_size = 0;                // Dh
  int tokens = kDefaultPageTokens;  // S: one of kPageSizes
};

// One KV head of one page of one layer, elements of the KV type:
//   keys   [Dh][S]      token fastest: scores of neighbouring keys in neighbouring lanes; rounded
//                       up to a multiple of 16 (pages of 8 tokens, odd Dh)
//   values [S][Dh_16]   Dh rounded up to a multiple of 16, the rest never shown
// Both together are head_page_elements(); heads of a page follow each other.
//
// q8: x = s c with c of -127..127; q4: x = s c + b with c of 0..15; s and b an f16 each for every
// kKvGroup elements of a token's key or value (the last group may be smaller). They are the token's
// own, so a stored key never changes. Behind the codes of keys and values lie
//   of keys   s [groups][S], of q4 b [groups][S]
//   of values s [S][groups], of q4 b [S][groups]
// Of 16 consecutive codes of q4 the first 8 lie in the low halves of 8 bytes.
inline constexpr int kKvGroup = 32;
inline constexpr int padded_head(int head_size) { return (head_size + 15) / 16 * 16; }
inline constexpr int kv_groups(int head_size) { return (head_size + kKvGroup - 1) / kKvGroup; }
inline constexpr int64_t key_elements(const PageShape& page) {
  return (int64_t{page.tokens} * page.head_size + 15) / 16 * 16;
}
inline constexpr int64_t head_page_elements(const PageShape& page) {
  return key_elements(page) + int64_t{page.tokens} * padded_head(page.head_size);
}
inline constexpr int64_t head_page_bytes(KvType type, const PageShape& page) {
  const int per_group = type == KvType::q8 ? 1 : type == KvType::q4 ? 2 : 0;
  const int64_t f16s = int64_t{2} * page.tokens * kv_groups(page.head_size) * per_group;
  return head_page_elements(page) * kv_type_bits(type) / 8 + 2 * f16s;
}

// The keys and values of one KV head. `base` + pages[i] * page_stride bytes holds the S positions
// from S (first_page + i) on; entries of pages that no query sees are never looked at.
struct KvHead {
  const void* base = nullptr;
  const int32_t* pages = nullptr;
  int64_t page_stride = 0;
  PageShape page = {};
  int64_t first_page = 0;
  // The chunk that will be read after this one, whole and of the same pages: those of it that are
  // there (entries >= 0) are fetched meanwhile. -1: none.
  int32_t next_chunk = -1;
  // What is added to the stored keys of each chunk: [kChunkPanels][Dh][16] f32, multiplied with the
  // queries' own q_added; or null.
  const float* added_keys = nullptr;
};

// Queries of one chunk call: query i (0 <= i < count) sees the positions begin[i] .. end[i] - 1.
struct AttentionQueries {
  const float* const* q = nullptr;  // [count] pointers to Dh floats
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
  int count = 0;
  float scale = 1;
  float soft_cap = 0;                     // 0: none
  const float* const* q_added = nullptr;  // [count], for KvHead::added_keys
};

// Running or partial sums of `count` queries: m [count], l [count], o [count][Dh_16].
struct AttentionSums {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
};

// One table per KvType, chosen once with the cache. Pages of q8 and q4 are read by unpack(), a
// chunk at a time, for the chunk() of f32.
struct AttentionKernels {
  // What chunk `chunk` (positions 64 chunk .. 64 chunk + 63) gives each query, overwriting `out`.
  // Queries that see none of it get m = -inf, l = 0 and undefined o. Stored keys and values that no
  // query of the call sees are not used: memory never written does no harm.
  // Err (bounds in attention_test.cpp): like softmax's, sums of at most max(Dh, 64) products.
  void (*chunk)(const KvHead& kv, const AttentionQueries& queries, int32_t chunk,
                const AttentionSums& out) noexcept;
  // Writes token rows k, v [Dh] of one KV head to slot `slot` (0..S - 1); f16 ends at +-65,504.
  void (*store)(const float* k, const float* v, const PageShape& page, int slot,
                void* head_page) noexcept;
  // into = merge(into, part) for each query; start with m = -inf, l = 0, o = 0.
  void (*merge)(const AttentionSums& into, const AttentionSums& part, int count,
                int head_size) noexcept;
  // y[i][0..Dh) = o / l; zeros where l == 0.
  void (*finish)(const AttentionSums& sums, int count, int head_size, float* const* y) noexcept;

  // ---- Of q8 and q4 alone, null in the others, as `chunk` is null here ----
  // A head page into the same page of f32.
  // Err: s c is exact in f32, s c + b rounds once; a page never written gives any values.
  void (*unpack)(const void* head_page, const PageShape& page, float* out) noexcept;
  // x [Dh] = H x, in place: the Walsh-Hadamard transform over blocks of the largest power of two
  // that divides Dh, orthonormal and its own inverse. Products of two turned vectors are those of
  // the vectors, and an outlier of one element is spread over all of them.
  // Err: log2(block) roundings a sum. Src: Ashkboos et al. 2024 (QuaRot, arXiv:2404.00456).
  void (*rotate)(float* x, int head_size) noexcept;
};

// `chunk` does best with queries in multiples of this (its register tile).
inline constexpr int kQueryTile = 6;

}  // namespace strata
