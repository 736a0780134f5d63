#pragma once

// Random words for masks; included by train_rows.inl.h. Vectors of the compiler's own, as in
// exp_f64.inl.h: each lane has a word in its low half and anything in its high one.
#include <cstdint>
#include <cstring>

#include "base/philox.h"
#include "kernels/train_rows.h"

namespace strata {
namespace {

constexpr int kPhiloxLanes = 4;
// Vectors computed side by side: one alone waits for its own products.
constexpr int kPhiloxVectors = 3;

void philox(const PhiloxBlocks& blocks, int64_t count, uint32_t* words) noexcept {
  const WideWords multiplier0 = WideWords{} + kPhiloxMultipliers[0];
  const WideWords multiplier1 = WideWords{} + kPhiloxMultipliers[1];
  constexpr int kBlocks = kPhiloxVectors * kPhiloxLanes;
  for (int64_t i = 0; i < count; i += kBlocks) {
    WideWords c[kPhiloxVectors][4];
    for (int v = 0; v < kPhiloxVectors; ++v) {
      for (int lane = 0; lane < kPhiloxLanes; ++lane)
        c[v][0][lane] = static_cast<uint32_t>(blocks.first + i + v * kPhiloxLanes + lane);
      for (int w = 1; w < 4; ++w) c[v][w] = WideWords{} + blocks.rest[w - 1];
    }
    uint32_t key0 = blocks.key[0], key1 = blocks.key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      for (WideWords(&x)[4] : c) {
        WideWords p0, p1;
        multiply_low_halves(multiplier0, x[0], p0);
        multiply_low_halves(multiplier1, x[2], p1);
        x[0] = (p1 >> 32) ^ x[1] ^ key0;
        x[1] = p1;
        x[2] = (p0 >> 32) ^ x[3] ^ key1;
        x[3] = p0;
      }
      key0 += kPhiloxWeyl[0];
      key1 += kPhiloxWeyl[1];
    }
    for (int v = 0; v < kPhiloxVectors; ++v) {
      const int64_t left = count - i - v * kPhiloxLanes;
      if (left <= 0) break;
      // Words 0 and 1, 2 and 3 of a block in a lane each, then blocks one after the other.
      const WideWords low = (c[v][0] & 0xffffffffu) | c[v][1] << 32;
      const WideWords high = (c[v][2] & 0xffffffffu) | c[v][3] << 32;
      const WideWords in_order[2] = {__builtin_shuffle(low, high, WideWords{0, 4, 1, 5}),
                                     __builtin_shuffle(low, high, WideWords{2, 6, 3, 7})};
      const size_t bytes = left < kPhiloxLanes ? 16 * static_cast<size_t>(left) : sizeof in_order;
      std::memcpy(words + 4 * (i + v * kPhiloxLanes), in_order, bytes);
    }
  }
}

}  // namespace
}  // namespace strata
