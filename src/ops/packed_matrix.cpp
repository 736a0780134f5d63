#include "ops/packed_matrix.h"

#include <algorithm>

#include "base/error.h"

namespace strata {
namespace {

// File bytes packed by one thread before their pages are given back: small against the memory of a
// model, large against the cost of a system call.
constexpr int64_t kStretchBytes = int64_t{1} << 20;

// Bytes from a row's first to its last element. All sizes are checked by division, so that no
// product of a file's numbers overflows.
int64_t checked_row_bytes(const MatrixSource& s) {
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
  return row_bytes;
}

}  // namespace

int64_t packed_matrix_bytes(const MatrixSource& source) {
  checked_row_bytes(source);
  const int64_t strip_bytes = packed_strip_bytes(source.type, source.in);
  const int64_t strips = (source.out - 1) / kStripRows + 1;
  if (strips > INT64_MAX / strip_bytes)
    fail(ErrorCode::resource_exhausted, "pack: {}: [{}, {}] does not fit memory", source.name,
         source.out, source.in);
  return strips * strip_bytes;
}

PackedMatrix::PackedMatrix(const MatrixSource& source, ThreadPool& pool, const PackOptions& options)
    : name_(source.name), type_(source.type), out_(source.out), in_(source.in) {
  const int64_t row_bytes = checked_row_bytes(source);
  const int64_t size = packed_matrix_bytes(source);
  strip_bytes_ = packed_strip_bytes(type_, in_);
  std::byte* memory = options.memory;
  if (memory == nullptr) {
    memory_ = AlignedBuffer(static_cast<size_t>(size), HugePages::advise);
    memory = memory_.as<std::byte>();
  }
  data_ = memory;
  // Rows of a transposed matrix interleave: all of the file's bytes are needed to the end.
  const bool rows_apart = source.row_stride >= row_bytes;
  const int64_t stretch =
      rows_apart ? std::max<int64_t>(1, kStretchBytes / (kStripRows * source.row_stride)) : 1;
  pool.parallel_for_dynamic(strips(), stretch, [&](int64_t begin, int64_t end) {
    for (int64_t strip = begin; strip < end; ++strip) {
      const std::byte* rows[kStripRows];
      for (int r = 0; r < kStripRows; ++r) {
        const int64_t row = strip * kStripRows + r;
        rows[r] = row < out_ ? source.bytes.data() + row * source.row_stride : nullptr;
      }
      pack_strip(type_, rows, in_, source.element_stride, memory + strip * strip_bytes_);
    }
    if (!rows_apart || !options.release) return;
    const int64_t last_row = std::min(out_, end * kStripRows) - 1;
    const int64_t first_byte = begin * kStripRows * source.row_stride;
    const int64_t end_byte = last_row * source.row_stride + row_bytes;
    options.release(source.bytes.subspan(static_cast<size_t>(first_byte),
                                         static_cast<size_t>(end_byte - first_byte)));
  });
  // Neighbouring threads map each other's pages again where their stretches meet.
  if (options.release) options.release(source.bytes);
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  if (row < 0 || row >= matrix.out())
    fail(ErrorCode::invalid_argument, "unpack_row: {}: row {} of {}", matrix.name(), row,
         matrix.out());
  unpack_row(matrix.type(), matrix.strip(row / kStripRows), static_cast<int>(row % kStripRows),
             matrix.in(), out);
}

}  // namespace strata
