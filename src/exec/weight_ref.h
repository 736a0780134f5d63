#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "numeric/tensor_type.h"

namespace strata {

// Names one weight and says where it lies; executors keep their own prepared copy under `id`
// (packed blobs for serving, f32 masters for training). A matrix is [out, in]; a vector is [1, in].
// Two references to the same tensor (a tied head) share the id.
struct WeightRef {
  int32_t id = -1;   // index into the model's weight table; -1: the model has no such weight
  std::string name;  // canonical: "blk.3.attn_q.weight"
  int64_t out = 0;
  int64_t in = 0;
  TensorType type = TensorType::f32;
  std::span<const std::byte> bytes;  // in the mapped file: from the first to the last element
  // Bytes from row to row and, for f32/f16/bf16 only, from element to element: other than
  // {row size, element size} where a file stores a matrix transposed (GPT-2's Conv1D) or fused.
  int64_t row_stride = 0;
  int64_t element_stride = 0;

  explicit operator bool() const { return id >= 0; }
};

// Decodes row `row` of the weight to out[0..in).
void decode_weight_row(const WeightRef& weight, int64_t row, float* out);

}  // namespace strata
