#include "ops/packed_matrix.h"

#include "base/error.h"

namespace strata {
namespace {

// All sizes are checked by division, so that no product of a file's numbers overflows.
void check_source(const MatrixSource& s) {
  const TensorTypeInfo& info = tensor_type_info(s.type);
  const auto corrupt = [&](const char* what) {
    fail(ErrorCode::data_corrupt,
         "pack: {}: {} ([{}, {}] {}, {} bytes, row stride {}, element stride {})", s.name, what,
         s.out, s.in, info.name, s.bytes.size(), s.row_stride, s.element_stride);
  };
  if (s.out <= 0 || s.in <= 0) corrupt("the matrix is empty");
  if (s.in % info.block_elements != 0) corrupt("a row is no whole number of blocks");
  const bool quantised = is_quantised(s.type);
  if (s.row_stride < 0 || s.element_stride < 0) corrupt("a stride is negative");
  const auto size = static_cast<int64_t>(s.bytes.size());
  const int64_t steps = quantised ? s.in / info.block_elements : s.in - 1;
  const int64_t step = quantised ? info.block_bytes : s.element_stride;
  const int64_t last = quantised ? 0 : info.block_bytes;
  if (step > 0 && steps > size / step) corrupt("the rows are longer than the data");
  const int64_t row_bytes = steps * step + last;
  if (row_bytes > size) corrupt("the rows are longer than the data");
  if (s.row_stride > 0 && s.out - 1 > (size - row_bytes) / s.row_stride)
    corrupt("the last row lies outside the data");
}

}  // namespace

PackedMatrix::PackedMatrix(const MatrixSource& source, ThreadPool& pool)
    : name_(source.name), type_(source.type), out_(source.out), in_(source.in) {
  check_source(source);
  strip_bytes_ = packed_strip_bytes(type_, in_);
  if (strips() > INT64_MAX / strip_bytes_)
    fail(ErrorCode::resource_exhausted, "pack: {}: [{}, {}] does not fit memory", name_, out_, in_);
  memory_ = AlignedBuffer(static_cast<size_t>(bytes()), HugePages::advise);
  pool.parallel_for(strips(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) {
      const std::byte* rows[kStripRows];
      for (int r = 0; r < kStripRows; ++r) {
        const int64_t row = strip * kStripRows + r;
        rows[r] = row < out_ ? source.bytes.data() + row * source.row_stride : nullptr;
      }
      pack_strip(type_, rows, in_, source.element_stride,
                 memory_.as<std::byte>() + strip * strip_bytes_);
    }
  });
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  if (row < 0 || row >= matrix.out())
    fail(ErrorCode::invalid_argument, "unpack_row: {}: row {} of {}", matrix.name(), row,
         matrix.out());
  unpack_row(matrix.type(), matrix.strip(row / kStripRows), static_cast<int>(row % kStripRows),
             matrix.in(), out);
}

}  // namespace strata
