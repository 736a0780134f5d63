#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// Bytes of the packed form of `source`. Throws as PackedMatrix's constructor.
int64_t packed_matrix_bytes(const MatrixSource& source);

struct PackOptions {
  // Where the packed form goes: packed_matrix_bytes(source) bytes on a 64-byte boundary that
  // outlive the matrix. nullptr: memory of the matrix's own.
  std::byte* memory = nullptr;
  // Called with parts of source.bytes as soon as they are packed, on any of the pool's threads, so
  // that a matrix larger than memory's rest need not lie in memory twice. May be empty.
  std::function<void(std::span<const std::byte>)> release;
};

// A weight matrix in the layout of numeric/packed.h: value-exact, about the file's size, one table
// for products and for reading rows (a tied head and the embedding share it). Immutable.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs on the pool's threads. Throws Error{data_corrupt} when the strides lead outside `bytes`
  // or a row is no whole number of blocks, Error{resource_exhausted} without memory.
  PackedMatrix(const MatrixSource& source, ThreadPool& pool, const PackOptions& options = {});

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
  const std::byte* strip(int64_t index) const { return data_ + index * strip_bytes_; }

 private:
  std::string name_;
  TensorType type_ = TensorType::f32;
  int64_t out_ = 0;
  int64_t in_ = 0;
  int64_t strip_bytes_ = 0;
  AlignedBuffer memory_;             // empty when the caller gave memory
  const std::byte* data_ = nullptr;  // in memory_ or the caller's
};

// Decodes row `row` to out[0..in), to the bits of decode_elements on the file's row.
// Throws Error{invalid_argument} for a row the matrix does not have.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace strata
