#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace strata {

// Reads little-endian numbers and runs of bytes one after the other and never past the end: then it
// throws data_corrupt with the file, the byte offset, and `what` was to be read.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }
  std::string_view file() const { return file_; }

  template <typename Number>
  Number read(std::string_view what) {
    need(sizeof(Number), what);
    Number value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(Number));
    offset_ += sizeof(Number);
    return value;
  }

  std::span<const std::byte> read_bytes(uint64_t count, std::string_view what) {
    need(count, what);
    const auto part = bytes_.subspan(offset_, count);
    offset_ += count;
    return part;
  }

  // A 64-bit length and that many bytes.
  std::string_view read_text(std::string_view what) {
    const auto length = read<uint64_t>(what);
    const auto part = read_bytes(length, what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  void need(uint64_t count, std::string_view what) const {
    if (count <= remaining()) return;
    fail(ErrorCode::data_corrupt,
         "{}: {} at byte offset {}: wants {} bytes, the file has {} left: cut short, or the length "
         "is wrong",
         file_, what, offset_, count, remaining());
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  uint64_t offset_ = 0;
};

}  // namespace strata
