#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "ops/packed_matrix.h"

namespace strata {

// A model's weights as ServeExec reads them: matrices packed, vectors as f32 (norms with their
// offset added). Indexed by WeightRef::id, so a tied head and its embedding are one table.
class PreparedWeights {
 public:
  // Packs tensor by tensor and lets the kernel drop the file's pages as it goes, so that the peak
  // of memory is the packed form plus a few MB. Nothing refers to the file afterwards. progress:
  // share of bytes done, 0..1; may be empty. Throws data_corrupt when the file was truncated
  // meanwhile, resource_exhausted without memory.
  PreparedWeights(const Model& model, ThreadPool& pool,
                  const std::function<void(double)>& progress);

  const PackedMatrix& matrix(const WeightRef& w) const;
  // nullptr for an absent weight.
  const float* vector(const WeightRef& w) const;
  // Whether any product of the model reads int8 activations.
  bool quantised() const { return quantised_; }
  uint64_t bytes() const;

 private:
  // All matrices lie in one block, in the order the forward pass reads them: with 2 MB pages, and
  // without rounding each matrix up to one.
  AlignedBuffer memory_;
  std::vector<PackedMatrix> matrices_;
  std::vector<std::vector<float>> vectors_;
  bool quantised_ = false;
};

}  // namespace strata
