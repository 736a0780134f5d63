#include "io/gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/utf8.h"
#include "io/byte_reader.h"
#include "io/file_kind.h"
#include "io/message_text.h"

namespace strata {
namespace {

constexpr uint32_t kGgufTypeCount = 13;
constexpr uint64_t kDefaultAlignment = 32;
// The least bytes an entry takes: key length, one character, value type, one byte.
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;
// Name length, one character, n_dims, no dimension, type, offset.
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;

void check_count(const ByteReader& in, std::string_view what, uint64_t count, uint64_t least_bytes,
                 uint64_t limit) {
  if (count > in.remaining() / least_bytes)
    fail(ErrorCode::data_corrupt,
         "{}: header: {} {} cannot fit in the {} bytes after byte offset {}: the count is wrong or "
         "the file cut short",
         in.file(), count, what, in.remaining(), in.offset());
  if (count > limit)
    fail(ErrorCode::unsupported, "{}: header: {} {}, wanted at most {}", in.file(), count, what,
         limit);
}

// Key or tensor name as printed in messages of what follows it.
std::string read_name(ByteReader& in, std::string_view what) {
  const uint64_t at = in.offset();
  const std::string_view name = in.read_text(what);
  if (name.empty() || name.size() > kMaxGgufNameBytes || !is_valid_utf8(name))
    fail(ErrorCode::data_corrupt,
         "{}: {} at byte offset {}: {}, wanted 1 to {} bytes of well-formed UTF-8", in.file(), what,
         at,
         name.size() > kMaxGgufNameBytes ? fmt::format("{} bytes", name.size()) : in_quotes(name),
         kMaxGgufNameBytes);
  return std::string(name);
}

// The value of one metadata key. Recursion: read_array, at most kMaxGgufArrayDepth deep.
class ValueReader {
 public:
  ValueReader(ByteReader& in, const std::string& key)
      : in_(in), what_(fmt::format("metadata key {}", in_quotes(key))) {}

  GgufValue read() {
    const GgufType type = read_type();
    switch (type) {
      case GgufType::u8:
        return {type, uint64_t{in_.read<uint8_t>(what_)}};
      case GgufType::i8:
        return {type, int64_t{in_.read<int8_t>(what_)}};
      case GgufType::u16:
        return {type, uint64_t{in_.read<uint16_t>(what_)}};
      case GgufType::i16:
        return {type, int64_t{in_.read<int16_t>(what_)}};
      case GgufType::u32:
        return {type, uint64_t{in_.read<uint32_t>(what_)}};
      case GgufType::i32:
        return {type, int64_t{in_.read<int32_t>(what_)}};
      case GgufType::u64:
        return {type, in_.read<uint64_t>(what_)};
      case GgufType::i64:
        return {type, in_.read<int64_t>(what_)};
      case GgufType::f32:
        return {type, double{in_.read<float>(what_)}};
      case GgufType::f64:
        return {type, in_.read<double>(what_)};
      case GgufType::boolean: {
        const auto byte = in_.read_bytes(1, what_);
        check_booleans(byte);
        return {type, byte[0] == std::byte{1}};
      }
      case GgufType::string:
        return {type, std::string(in_.read_text(what_))};
      case GgufType::array:
        break;
    }
    return {type, read_array(1)};
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorCode::data_corrupt, "{}: {} before byte offset {}: {}", in_.file(), what_,
         in_.offset(), fmt::format(format, std::forward<Args>(args)...));
  }

  GgufType read_type() {
    const auto id = in_.read<uint32_t>(what_);
    if (id >= kGgufTypeCount) refuse("value type {}, wanted 0 to {}", id, kGgufTypeCount - 1);
    return static_cast<GgufType>(id);
  }

  void check_booleans(std::span<const std::byte> bytes) {
    for (std::byte byte : bytes)
      if (byte > std::byte{1}) refuse("boolean is {}, wanted 0 or 1", static_cast<int>(byte));
  }

  // The count is compared with the bytes left before anything is allocated for it.
  GgufArray read_array(int depth) {
    if (depth > kMaxGgufArrayDepth) refuse("arrays are nested deeper than {}", kMaxGgufArrayDepth);
    GgufArray array;
    array.element_type = read_type();
    array.count = in_.read<uint64_t>(what_);
    const int element_bytes = gguf_value_bytes(array.element_type);
    if (element_bytes > 0) {
      const auto size = checked_multiply(array.count, static_cast<uint64_t>(element_bytes));
      if (!size || *size > in_.remaining()) refuse_count(array);
      const auto bytes = in_.read_bytes(*size, what_);
      if (array.element_type == GgufType::boolean) check_booleans(bytes);
      array.numbers.assign(bytes.begin(), bytes.end());
    } else if (array.element_type == GgufType::string) {
      if (array.count > in_.remaining() / sizeof(uint64_t)) refuse_count(array);
      array.strings.reserve(array.count);
      for (uint64_t i = 0; i < array.count; ++i) array.strings.add(in_.read_text(what_));
    } else {
      if (array.count > in_.remaining() / (sizeof(uint32_t) + sizeof(uint64_t)))
        refuse_count(array);
      for (uint64_t i = 0; i < array.count; ++i) read_array(depth + 1);
    }
    return array;
  }

  [[noreturn]] void refuse_count(const GgufArray& array) {
    refuse("array of {} {} elements cannot fit in the {} bytes left", array.count,
           gguf_value_type_name(array.element_type), in_.remaining());
  }

  ByteReader& in_;
  std::string what_;
};

uint32_t read_header_version(ByteReader& in, std::span<const std::byte> bytes) {
  constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
  if (bytes.empty()) fail(ErrorCode::data_corrupt, "{}: the file is empty", in.file());
  if (bytes.size() < 4 || in.read<uint32_t>("magic") != kMagic) {
    const std::string_view kind = recognise_other_kind(bytes);
    fail(ErrorCode::data_corrupt, "{}: byte offset 0: no GGUF file{}{}", in.file(),
         kind.empty() ? ": wanted it to begin with \"GGUF\"" : "; it looks like ", kind);
  }
  const auto version = in.read<uint32_t>("version");
  if (version == 2 || version == 3) return version;
  const bool swapped = (version & 0xffff) == 0 && version != 0;
  fail(ErrorCode::unsupported, "{}: byte offset 4: GGUF version {}, wanted 2 or 3{}", in.file(),
       version, swapped ? " (its bytes are swapped: a big-endian file)" : "");
}

uint64_t read_alignment(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  const auto alignment = metadata.find_u32(kKey);
  if (!alignment) return kDefaultAlignment;
  const bool power_of_two = (*alignment & (*alignment - 1)) == 0;
  if (*alignment < 8 || *alignment > kMaxGgufAlignment || !power_of_two)
    metadata.refuse(kKey, fmt::format("is {}, wanted a power of two from 8 to {}", *alignment,
                                      kMaxGgufAlignment));
  return *alignment;
}

struct TensorEntry {
  StoredTensor tensor;
  uint64_t offset = 0;  // from the start of the data
  uint64_t size_bytes = 0;
};

TensorEntry read_tensor_entry(ByteReader& in) {
  TensorEntry entry;
  StoredTensor& tensor = entry.tensor;
  tensor.name = read_name(in, "tensor name");
  check_tensor_name(tensor.name, in.file());
  const std::string what = fmt::format("tensor {}", in_quotes(tensor.name));

  const auto n_dims = in.read<uint32_t>(what);
  if (n_dims > kMaxGgufDims)
    fail(ErrorCode::data_corrupt, "{}: {}: n_dims is {}, wanted at most {}", in.file(), what,
         n_dims, kMaxGgufDims);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    const auto dim = in.read<uint64_t>(what);
    const auto product = checked_multiply(elements, dim);
    // Elements are counted in int64_t from here on.
    if (dim == 0 || !product || *product > uint64_t{1} << 62)
      fail(ErrorCode::data_corrupt, "{}: {}: dimension {} is {}, wanted {}", in.file(), what, i,
           dim, dim == 0 ? "at least 1" : "a number of elements that fits 62 bits");
    elements = *product;
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dim));
  }

  const auto id = in.read<uint32_t>(what);
  const auto type = tensor_type_from_gguf(id);
  if (!type) {
    const std::string_view name = gguf_type_name(id);
    if (name.empty())
      fail(ErrorCode::data_corrupt, "{}: {}: unknown tensor type {}", in.file(), what, id);
    fail(ErrorCode::unsupported, "{}: {}: tensor type {} ({}) is not supported", in.file(), what,
         name, id);
  }
  tensor.type = *type;
  const TensorTypeInfo& info = tensor_type_info(*type);
  const auto block = static_cast<uint64_t>(info.block_elements);
  if (static_cast<uint64_t>(tensor.columns()) % block != 0)
    fail(ErrorCode::data_corrupt, "{}: {}: rows of {} elements, wanted a multiple of {} for {}",
         in.file(), what, tensor.columns(), block, info.name);
  const auto size = checked_multiply(elements / block, static_cast<uint64_t>(info.block_bytes));
  if (!size)
    fail(ErrorCode::data_corrupt, "{}: {}: {} elements of {} overflow 64-bit sizes", in.file(),
         what, elements, info.name);
  entry.size_bytes = *size;
  entry.offset = in.read<uint64_t>(what);
  return entry;
}

// Where in the file the entry's bytes are; each must lie inside, aligned.
void place_tensor(TensorEntry& entry, const GgufContent& content,
                  std::span<const std::byte> bytes) {
  const std::string& file = content.metadata.file();
  StoredTensor& tensor = entry.tensor;
  if (entry.offset % content.alignment != 0)
    fail(ErrorCode::data_corrupt, "{}: tensor {}: offset {} is not a multiple of the alignment {}",
         file, in_quotes(tensor.name), entry.offset, content.alignment);
  const auto begin = checked_add(content.data_offset, entry.offset);
  const auto end = begin ? checked_add(*begin, entry.size_bytes) : std::nullopt;
  if (!end || *end > bytes.size())
    fail(ErrorCode::data_corrupt,
         "{}: tensor {}: {} bytes at offset {} of the data, which begins at byte offset {}, reach "
         "past the file's end at {}: cut short, or the table is wrong",
         file, in_quotes(tensor.name), entry.size_bytes, entry.offset, content.data_offset,
         bytes.size());
  tensor.file_offset = *begin;
  tensor.bytes = bytes.subspan(*begin, entry.size_bytes);
}

}  // namespace

GgufContent parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  ByteReader in(bytes, file);
  GgufContent content;
  content.metadata = GgufMetadata(file);
  content.version = read_header_version(in, bytes);
  const auto tensor_count = in.read<uint64_t>("tensor count");
  const auto key_count = in.read<uint64_t>("metadata count");
  check_count(in, "metadata keys", key_count, kLeastKeyBytes, kMaxGgufKeys);
  check_count(in, "tensors", tensor_count, kLeastTensorBytes, kMaxGgufTensors);

  for (uint64_t i = 0; i < key_count; ++i) {
    const uint64_t at = in.offset();
    const std::string key = read_name(in, "metadata key");
    if (!content.metadata.insert(key, ValueReader(in, key).read()))
      fail(ErrorCode::data_corrupt, "{}: duplicate metadata key {} at byte offset {}", file,
           in_quotes(key), at);
  }
  content.alignment = read_alignment(content.metadata);

  check_count(in, "tensors", tensor_count, kLeastTensorBytes, kMaxGgufTensors);
  std::vector<TensorEntry> entries;
  for (uint64_t i = 0; i < tensor_count; ++i) entries.push_back(read_tensor_entry(in));
  // Cannot overflow: the position lies in a mapped file and the alignment is small.
  content.data_offset = checked_align_up(in.offset(), content.alignment).value();
  content.tensors.reserve(entries.size());
  for (TensorEntry& entry : entries) {
    place_tensor(entry, content, bytes);
    content.tensors.push_back(std::move(entry.tensor));
  }
  check_distinct(content.tensors, file);
  return content;
}

}  // namespace strata
