#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "exec/weight_ref.h"
#include "io/tensor_store.h"

namespace strata {

// The f32 tensors of a model that is in no file yet, in memory that training changes: what its
// WeightRefs point into. Tensors lie one after the other, each on a cache line of its own.
class MemoryTensors final : public TensorStore {
 public:
  struct Shape {
    std::string name;
    std::vector<int64_t> shape;
  };
  // Zeros. Throws Error{resource_exhausted} without memory.
  explicit MemoryTensors(const std::vector<Shape>& shapes);

  // What a WeightRef of this model points into: [out, in], contiguous.
  float* values(const WeightRef& w) const {
    return memory_.as<float>() +
           (reinterpret_cast<const float*>(w.bytes.data()) - memory_.as<float>());
  }

  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override;
  const std::vector<std::string>& files() const override { return files_; }
  uint64_t file_bytes() const override { return 0; }
  void check_intact() const override {}
  void release_pages(std::span<const std::byte> /*part*/) const override {}

 private:
  AlignedBuffer memory_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> files_;
};

}  // namespace strata
