#include "tensor/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace strata {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestChunk = size_t{1} << 20;

size_t rounded_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Arena::Free::operator()(void* p) const { std::free(p); }

void* Arena::allocate(size_t bytes) {
  bytes = std::max(rounded_up(bytes), kAlignment);
  while (current_ < chunks_.size() && offset_ + bytes > chunks_[current_].bytes) {
    ++current_;
    offset_ = 0;
  }
  if (current_ == chunks_.size()) {
    // Doubling keeps the number of chunks small while the step sizes are still growing.
    const size_t size = std::max({bytes, kSmallestChunk, rounded_up(held_)});
    void* memory = std::aligned_alloc(kAlignment, size);
    if (memory == nullptr) throw std::bad_alloc();
    chunks_.push_back({std::unique_ptr<void, Free>(memory), size});
    held_ += size;
  }
  void* block = static_cast<std::byte*>(chunks_[current_].memory.get()) + offset_;
  offset_ += bytes;
  used_ += bytes;
  return block;
}

Tensor Arena::tensor(DType dtype, int64_t rows, int64_t columns) {
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  const int64_t element = dtype == DType::f64 ? 8 : half ? 2 : 4;
  const int64_t per_line = static_cast<int64_t>(kAlignment) / element;
  const int64_t stride = (columns + per_line - 1) / per_line * per_line;
  Tensor t;
  t.dtype = dtype;
  t.rows = rows;
  t.columns = columns;
  t.stride = stride;
  t.data = allocate(static_cast<size_t>(rows * stride * element));
  return t;
}

void Arena::reset() {
  // One chunk that holds what the last step needed, instead of the pieces it grew by.
  if (chunks_.size() > 1) {
    const size_t total = held_;
    chunks_.clear();
    held_ = 0;
    current_ = 0;
    offset_ = 0;
    allocate(total);
  }
  current_ = 0;
  offset_ = 0;
  used_ = 0;
}

}  // namespace strata
