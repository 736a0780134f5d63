#pragma once

#include <cstdint>

#include "base/aligned.h"
#include "exec/exec.h"

namespace strata {

// Cosines and sines of one Rope for the positions seen so far, as the row kernels read them:
// computed in f64, rounded once, so an angle's error does not grow with the position.
class RopeTable {
 public:
  // Memory for `context` positions is reserved and touched only as they are filled.
  RopeTable(const Rope& rope, int64_t context);

  const Rope* rope() const { return rope_; }
  int64_t size() const { return size_; }  // pairs that turn
  int64_t context() const { return context_; }
  // Makes positions 0 .. last ready. Throws invalid_argument beyond the context.
  void fill_to(int64_t last);
  // halves: [size] each; pairs: [2 * size] each, every value twice, the sine with its sign.
  const float* cosines(int64_t position) const { return memory_.as<float>() + position * stride_; }
  const float* sines(int64_t position) const { return cosines(position) + stride_ / 2; }
  // Floats of a position, the second half its sines; and those of any position, table or not.
  int64_t stride() const { return stride_; }
  void compute(int64_t position, float* row) const;

 private:
  const Rope* rope_;
  int64_t size_;
  int64_t context_;
  int64_t stride_;  // floats of a position: cosines, then sines
  int64_t filled_ = 0;
  AlignedBuffer memory_;
};

}  // namespace strata
