#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "numeric/packed.h"
#include "numeric/tensor_type.h"

namespace strata {

// A weight matrix [out, in] as it lies in a file (exec's WeightRef without its id).
struct MatrixSource {
  std::string name;  // for messages
  TensorType type = TensorType::f32;
  int64_t out = 0;
  int64_t in = 0;
  std::span<const std::byte> bytes;  // from the first to the last element
  int64_t row_stride = 0;            // bytes from row to row
  int64_t element_stride = 0;        // bytes from element to element; float types only
};

// A weight matrix in the layout of numeric/packed.h: value-exact, about the file's size, one table
// for products and for reading rows (a tied head and the embedding share it). Immutable.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs on the pool's threads. Throws Error{data_corrupt} when the strides lead outside `bytes`
  // or a row is no whole number of blocks, Error{resource_exhausted} without memory.
  PackedMatrix(const MatrixSource& source, ThreadPool& pool);

  explicit operator bool() const { return out_ > 0; }
  const std::string& name() const { return name_; }
  TensorType type() const { return type_; }
  bool quantised() const { return is_quantised(type_); }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  int64_t strips() const { return (out_ + kStripRows - 1) / kStripRows; }
  int64_t strip_bytes() const { return strip_bytes_; }
  // All of it: what one product reads.
  int64_t bytes() const { return strips() * strip_bytes_; }
  const std::byte* strip(int64_t index) const {
    return memory_.as<const std::byte>() + index * strip_bytes_;
  }

 private:
  std::string name_;
  TensorType type_ = TensorType::f32;
  int64_t out_ = 0;
  int64_t in_ = 0;
  int64_t strip_bytes_ = 0;
  AlignedBuffer memory_;
};

// Decodes row `row` to out[0..in), to the bits of decode_elements on the file's row.
// Throws Error{invalid_argument} for a row the matrix does not have.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace strata
