#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace strata {

// Memory for the activations of one step: allocate() only moves a pointer, reset() gives everything
// back at once and keeps the memory, so that a step of a size seen before allocates nothing.
// Blocks are 64-byte aligned. Not for use by several threads at once.
class Arena {
 public:
  void* allocate(size_t bytes);
  // An uninitialised [rows, columns] tensor; rows start 64-byte aligned (the stride is padded).
  Tensor tensor(DType dtype, int64_t rows, int64_t columns);
  void reset();
  size_t used_bytes() const { return used_; }
  size_t held_bytes() const { return held_; }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  struct Chunk {
    std::unique_ptr<void, Free> memory;
    size_t bytes = 0;
  };
  std::vector<Chunk> chunks_;
  size_t current_ = 0;  // index of the chunk in use
  size_t offset_ = 0;   // in that chunk
  size_t used_ = 0;
  size_t held_ = 0;
};

}  // namespace strata
