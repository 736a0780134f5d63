#include "io/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/checked_math.h"
#include "base/error.h"
#include "io/byte_reader.h"
#include "io/file_kind.h"
#include "io/json_scanner.h"
#include "io/message_text.h"
#include "numeric/tensor_type.h"

namespace strata {
namespace {

struct Dtype {
  std::string_view name;
  int bits;
  std::optional<TensorType> type;  // nullopt: strata does not read it
};
constexpr std::array<Dtype, 21> kDtypes = {{{"F32", 32, TensorType::f32},
                                            {"F16", 16, TensorType::f16},
                                            {"BF16", 16, TensorType::bf16},
                                            {"BOOL", 8, {}},
                                            {"U8", 8, {}},
                                            {"I8", 8, {}},
                                            {"U16", 16, {}},
                                            {"I16", 16, {}},
                                            {"U32", 32, {}},
                                            {"I32", 32, {}},
                                            {"U64", 64, {}},
                                            {"I64", 64, {}},
                                            {"F64", 64, {}},
                                            {"C64", 64, {}},
                                            {"F8_E4M3", 8, {}},
                                            {"F8_E5M2", 8, {}},
                                            {"F8_E8M0", 8, {}},
                                            {"F6_E2M3", 6, {}},
                                            {"F6_E3M2", 6, {}},
                                            {"F4", 4, {}},
                                            {"F8_E4M3FNUZ", 8, {}}}};

struct Entry {
  StoredTensor tensor;
  std::string dtype;
  bool is_read = false;
  uint64_t begin = 0;  // from the start of the data
  uint64_t end = 0;
};

// Bytes of `shape` elements of `bits`; the scanner stands after them, for the message.
uint64_t size_of(const Entry& entry, int bits, const JsonScanner& json) {
  uint64_t elements = 1;
  for (int64_t dim : entry.tensor.shape) {
    const auto product = checked_multiply(elements, static_cast<uint64_t>(dim));
    if (!product || *product > uint64_t{1} << 62)
      json.refuse("tensor {}: the product of its dimensions overflows",
                  in_quotes(entry.tensor.name));
    elements = *product;
  }
  const auto total_bits = checked_multiply(elements, static_cast<uint64_t>(bits));
  if (!total_bits || *total_bits % 8 != 0)
    json.refuse("tensor {}: {} elements of {} bits are no whole number of bytes that fits 64 bits",
                in_quotes(entry.tensor.name), elements, bits);
  return *total_bits / 8;
}

void read_shape(JsonScanner& json, Entry& entry) {
  constexpr size_t kMaxDims = 16;
  json.read_array([&] {
    const uint64_t dim = json.read_unsigned();
    if (dim > uint64_t{1} << 62 || entry.tensor.shape.size() == kMaxDims)
      json.refuse("tensor {}: dimension {} is {}, wanted at most 2^62 and {} dimensions",
                  in_quotes(entry.tensor.name), entry.tensor.shape.size(), dim, kMaxDims);
    entry.tensor.shape.push_back(static_cast<int64_t>(dim));
  });
}

void read_offsets(JsonScanner& json, Entry& entry) {
  int count = 0;
  json.read_array([&] {
    const uint64_t offset = json.read_unsigned();
    (count == 0 ? entry.begin : entry.end) = offset;
    ++count;
  });
  if (count != 2 || entry.begin > entry.end)
    json.refuse("tensor {}: data_offsets must be a begin and an end not before it",
                in_quotes(entry.tensor.name));
}

Entry read_entry(JsonScanner& json, std::string name, std::string_view file) {
  Entry entry;
  check_tensor_name(name, file);
  entry.tensor.name = std::move(name);
  const std::string quoted_name = in_quotes(entry.tensor.name);
  bool has_shape = false, has_offsets = false;
  json.read_object([&](const std::string& field) {
    if (field == "dtype") {
      entry.dtype = json.read_string();
    } else if (field == "shape") {
      read_shape(json, entry);
      has_shape = true;
    } else if (field == "data_offsets") {
      read_offsets(json, entry);
      has_offsets = true;
    } else {
      json.refuse("tensor {}: unknown field {}", quoted_name, in_quotes(field));
    }
  });
  if (entry.dtype.empty() || !has_shape || !has_offsets)
    json.refuse("tensor {}: wanted dtype, shape and data_offsets", quoted_name);

  const auto dtype = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& d) { return d.name == entry.dtype; });
  if (dtype == kDtypes.end())
    fail(ErrorCode::unsupported, "{}: tensor {}: dtype {} is not known; wanted F32, F16 or BF16",
         file, quoted_name, in_quotes(entry.dtype));
  entry.is_read = dtype->type.has_value();
  if (entry.is_read) entry.tensor.type = *dtype->type;
  if (const uint64_t size = size_of(entry, dtype->bits, json); size != entry.end - entry.begin)
    json.refuse("tensor {}: data_offsets hold {} bytes, shape and dtype {} want {}", quoted_name,
                entry.end - entry.begin, entry.dtype, size);
  return entry;
}

std::map<std::string, std::string> read_metadata(JsonScanner& json) {
  std::map<std::string, std::string> metadata;
  json.read_object([&](std::string key) { metadata[std::move(key)] = json.read_string(); });
  return metadata;
}

// No hole, no overlap, all data used.
void check_cover(std::vector<Entry>& entries, uint64_t data_bytes, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.end > data_bytes)
      fail(ErrorCode::data_corrupt,
           "{}: tensor {}: its bytes end at {} of the data, the file has {} bytes of data: cut "
           "short",
           file, in_quotes(entry.tensor.name), entry.end, data_bytes);
    if (entry.begin != position)
      fail(ErrorCode::data_corrupt, "{}: tensor {}: begins at {} of the data, wanted {}: {}", file,
           in_quotes(entry.tensor.name), entry.begin, position,
           entry.begin < position ? "it overlaps another tensor" : "bytes belong to no tensor");
    position = entry.end;
  }
  if (position != data_bytes)
    fail(ErrorCode::data_corrupt,
         "{}: the tensors end at {} of the data, the file has {} bytes of it", file, position,
         data_bytes);
}

// Tensors of block formats: U8 in the table, what they are in the metadata, which loses those keys.
void read_block_types(std::vector<Entry>& entries, std::map<std::string, std::string>& metadata,
                      const std::string& file) {
  std::map<std::string_view, Entry*> by_name;
  for (auto key = metadata.lower_bound(std::string(kBlockTypeKey));
       key != metadata.end() && key->first.starts_with(kBlockTypeKey); key = metadata.erase(key)) {
    if (by_name.empty())
      for (Entry& entry : entries) by_name.emplace(entry.tensor.name, &entry);
    const auto found = by_name.find(std::string_view(key->first).substr(kBlockTypeKey.size()));
    if (found == by_name.end())
      fail(ErrorCode::data_corrupt, "{}: metadata {}: the file has no such tensor", file,
           in_quotes(key->first));
    Entry& entry = *found->second;
    const std::string name = in_quotes(entry.tensor.name);
    const std::optional<TensorType> type = tensor_type_named(key->second);
    if (!type || tensor_type_info(*type).block_elements == 1)
      fail(ErrorCode::unsupported,
           "{}: tensor {}: its metadata says type {}, no block format known", file, name,
           in_quotes(key->second));
    const TensorTypeInfo& info = tensor_type_info(*type);
    std::vector<int64_t>& shape = entry.tensor.shape;
    constexpr int64_t kMostBytes = int64_t{1}
                                   << 56;  // a row of a tensor without rows may claim more
    if (entry.dtype != "U8" || shape.empty() || shape.back() % info.block_bytes != 0 ||
        shape.back() > kMostBytes)
      fail(ErrorCode::data_corrupt,
           "{}: tensor {}: {} rows of {} bytes, wanted U8 and whole blocks of {} bytes for {}",
           file, name, entry.dtype, shape.empty() ? 0 : shape.back(), info.block_bytes, info.name);
    // Some elements a byte: the product of the dimensions still fits.
    shape.back() = shape.back() / info.block_bytes * info.block_elements;
    entry.tensor.type = *type;
    entry.is_read = true;
  }
}

// A message about a length that cannot be is worth little where the file is of another kind.
[[noreturn]] void refuse_file(std::span<const std::byte> bytes, const std::string& file,
                              std::string_view problem) {
  const bool is_header_behind = bytes.size() > 8 && bytes[8] == std::byte{'{'};
  const std::string_view kind = is_header_behind ? "" : recognise_other_kind(bytes);
  if (!kind.empty())
    fail(ErrorCode::data_corrupt, "{}: no safetensors file; it looks like {}", file, kind);
  fail(ErrorCode::data_corrupt, "{}: {}", file, problem);
}

std::string_view header_of(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.empty()) fail(ErrorCode::data_corrupt, "{}: the file is empty: cut short", file);
  if (bytes.size() < sizeof(uint64_t))
    refuse_file(bytes, file, fmt::format("{} bytes, wanted at least 8: cut short", bytes.size()));
  const auto length = ByteReader(bytes, file).read<uint64_t>("header length");
  const uint64_t rest = bytes.size() - sizeof(uint64_t);
  if (length > kMaxSafetensorsHeader)
    refuse_file(bytes, file,
                fmt::format("header length is {}, wanted at most {}; the file has {} bytes", length,
                            kMaxSafetensorsHeader, bytes.size()));
  if (length > rest)
    refuse_file(bytes, file,
                fmt::format("header length is {}, the file has {} bytes after it: cut short",
                            length, rest));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(uint64_t),
                                length);
  if (!header.starts_with('{'))
    refuse_file(bytes, file,
                length == 0 ? std::string("header length is 0, wanted at least 2")
                            : fmt::format("header at byte offset 8 begins with {}, wanted '{{'",
                                          in_quotes(header.substr(0, 12))));
  return header;
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view header = header_of(bytes, file);
  const auto data = bytes.subspan(sizeof(uint64_t) + header.size());

  SafetensorsContent content;
  std::vector<Entry> entries;
  JsonScanner json(header, file, sizeof(uint64_t));
  json.read_object([&](std::string name) {
    if (name == kSafetensorsMetadataKey) {
      content.metadata = read_metadata(json);
      return;
    }
    if (entries.size() == kMaxSafetensorsTensors)
      fail(ErrorCode::unsupported, "{}: more than {} tensors", file, kMaxSafetensorsTensors);
    entries.push_back(read_entry(json, std::move(name), file));
  });
  json.expect_end();
  check_cover(entries, data.size(), file);
  read_block_types(entries, content.metadata, file);

  for (Entry& entry : entries) {
    StoredTensor& tensor = entry.tensor;
    if (!entry.is_read) {
      content.unread.emplace_back(std::move(tensor.name), std::move(entry.dtype));
      continue;
    }
    tensor.file_offset = sizeof(uint64_t) + header.size() + entry.begin;
    tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    content.tensors.push_back(std::move(tensor));
  }
  return content;
}

}  // namespace strata
