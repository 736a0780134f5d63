#pragma once

// The register tile that f32 products and the attention of training share; included by ISA files
// after their Vec, by a header that has said how many vectors wide the tile is (kTileVecs).
#include <cstdint>

namespace strata {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kTileColumns = kTileVecs * kLanes;

// Where element (r, k) of the left operand is.
enum class Left {
  rows,     // a[r lda + k]
  columns,  // a[k lda + r]
};

template <int kRows>
using Tile = Vec[kRows][kTileVecs];

template <int kRows>
inline void clear(Tile<kRows>& acc) {
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kTileVecs; ++j) acc[r][j] = zero();
}

// acc[r][..] += sum over k < depth of a(r, k) b[k ldb + ..], added in order of k.
template <Left kLeft, int kRows>
inline void multiply_add(Tile<kRows>& acc, const float* a, int64_t lda, const float* b, int64_t ldb,
                         int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) {
    Vec columns[kTileVecs];
    for (int j = 0; j < kTileVecs; ++j) columns[j] = load(b + j * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec x = broadcast(kLeft == Left::rows ? a[r * lda] : a[r]);
      for (int j = 0; j < kTileVecs; ++j) acc[r][j] = fma(x, columns[j], acc[r][j]);
    }
    a += kLeft == Left::rows ? 1 : lda;
    b += ldb;
  }
}

// Calls body.template operator()<kRows>() with kRows = rows, 1 <= rows <= 6.
template <class Body>
inline void for_rows(int rows, const Body& body) {
  switch (rows) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    case 4:
      return body.template operator()<4>();
    case 5:
      return body.template operator()<5>();
    default:
      return body.template operator()<6>();
  }
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// panel[k kTileColumns + j] = from[j ld + k] as a float, k < depth: columns that lie one after the
// other, `width` of them, and zeros in the others' place.
template <class Element>
inline void pack_transposed(const Element* from, int64_t ld, int64_t depth, int64_t width,
                            float* panel) {
  for (int64_t j = 0; j < kTileColumns; j += kLanes, from += kLanes * ld) {
    const int64_t whole = width >= j + kLanes ? depth / kLanes * kLanes : 0;
    for (int64_t k = 0; k < whole; k += kLanes) {
      Vec square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = load_as_float(from + i * ld + k);
      transpose(square);
      for (int i = 0; i < kLanes; ++i) store(panel + (k + i) * kTileColumns + j, square[i]);
    }
    for (int64_t k = whole; k < depth; ++k)
      for (int i = 0; i < kLanes; ++i)
        panel[k * kTileColumns + j + i] = j + i < width ? to_float(from[i * ld + k]) : 0.0f;
  }
}

}  // namespace
}  // namespace strata
