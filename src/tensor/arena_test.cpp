#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace strata {
namespace {

TEST(Arena, BlocksAreAlignedAndApart) {
  Arena arena;
  auto* a = static_cast<char*>(arena.allocate(1));
  auto* b = static_cast<char*>(arena.allocate(100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  EXPECT_GE(b - a, 64);
}

TEST(Arena, RowsOfATensorAreAlignedAndWritable) {
  Arena arena;
  const Tensor t = arena.tensor(DType::f32, 3, 17);
  EXPECT_EQ(t.stride, 32);
  for (int64_t r = 0; r < 3; ++r) std::memset(t.row<float>(r), 1, 17 * sizeof(float));
  const Tensor d = arena.tensor(DType::f64, 2, 8);
  EXPECT_EQ(d.stride, 8);
}

TEST(Arena, HoldsItsMemoryOverSteps) {
  Arena arena;
  for (int i = 0; i < 5; ++i) arena.allocate(size_t{1} << 20);
  arena.reset();
  const size_t held = arena.held_bytes();
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 5; ++i) arena.allocate(size_t{1} << 20);
    EXPECT_EQ(arena.used_bytes(), size_t{5} << 20);
    arena.reset();
  }
  EXPECT_EQ(arena.held_bytes(), held);
}

}  // namespace
}  // namespace strata
