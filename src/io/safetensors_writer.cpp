#include "io/safetensors_writer.h"

#include <fmt/core.h>

#include <functional>
#include <set>
#include <string_view>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"
#include "base/utf8.h"
#include "io/mapped_store.h"
#include "io/message_text.h"
#include "io/safetensors.h"

namespace strata {
namespace {

std::string json_text(const std::string& text) {
  if (!is_valid_utf8(text))
    fail(ErrorCode::invalid_argument, "safetensors writer: {} is not well-formed UTF-8",
         in_quotes(text));
  return to_json_text(Json(text));
}

void check_header_size(uint64_t size) {
  if (size > kMaxSafetensorsHeader)
    fail(ErrorCode::invalid_argument,
         "safetensors writer: the header has {} bytes or more, wanted at most {}; write shards",
         size, kMaxSafetensorsHeader);
}

bool is_block_format(TensorType type) { return tensor_type_info(type).block_elements > 1; }

// The shape in the header: of a block format's bytes.
std::vector<int64_t> header_shape(const SafetensorsTensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (!is_block_format(tensor.type)) return shape;
  const TensorTypeInfo& info = tensor_type_info(tensor.type);
  if (shape.empty() || shape.back() % info.block_elements != 0)
    fail(ErrorCode::invalid_argument,
         "safetensors writer: tensor {}: rows of {}, wanted whole blocks of {} for {}",
         in_quotes(tensor.name), shape.empty() ? 1 : shape.back(), info.block_elements, info.name);
  shape.back() = shape.back() / info.block_elements * info.block_bytes;
  return shape;
}

// Bytes that shape and type ask for.
uint64_t size_of(const SafetensorsTensor& tensor) {
  uint64_t size = is_block_format(tensor.type)
                      ? 1
                      : static_cast<uint64_t>(tensor_type_info(tensor.type).block_bytes);
  for (int64_t dim : header_shape(tensor)) {
    const auto product =
        dim < 0 ? std::nullopt : checked_multiply(size, static_cast<uint64_t>(dim));
    if (!product || *product > uint64_t{1} << 60)
      fail(ErrorCode::invalid_argument, "safetensors writer: tensor {}: dimension {}",
           in_quotes(tensor.name), dim);
    size = *product;
  }
  return size;
}

void check(const SafetensorsTensor& tensor) {
  if (tensor.name == kSafetensorsMetadataKey)
    fail(ErrorCode::invalid_argument,
         "safetensors writer: a tensor cannot be called {}: the name is taken by the format",
         kSafetensorsMetadataKey);
  check_tensor_name(tensor.name, "safetensors writer");
  if (const uint64_t size = size_of(tensor);
      size != tensor.bytes.size() || tensor.shape.size() > 16)
    fail(ErrorCode::invalid_argument,
         "safetensors writer: tensor {}: {} bytes and {} dimensions given, wanted {} bytes and at "
         "most 16 dimensions",
         in_quotes(tensor.name), tensor.bytes.size(), tensor.shape.size(), size);
}

}  // namespace

std::string safetensors_header(std::span<const SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& given_metadata) {
  if (tensors.size() > kMaxSafetensorsTensors)
    fail(ErrorCode::invalid_argument, "safetensors writer: {} tensors, wanted at most {}",
         tensors.size(), kMaxSafetensorsTensors);
  std::map<std::string, std::string> metadata = given_metadata;
  if (const auto key = metadata.lower_bound(std::string(kBlockTypeKey));
      key != metadata.end() && key->first.starts_with(kBlockTypeKey))
    fail(ErrorCode::invalid_argument,
         "safetensors writer: metadata {}: such keys are made from the tensors' types",
         in_quotes(key->first));
  for (const SafetensorsTensor& tensor : tensors)
    if (is_block_format(tensor.type))
      metadata[std::string(kBlockTypeKey) + tensor.name] = tensor_type_info(tensor.type).name;
  std::string json = "{";
  if (!metadata.empty()) {
    std::string members;
    for (const auto& [key, value] : metadata) {
      check_header_size(members.size() + key.size() + value.size());  // before the work on them
      members += (members.empty() ? "" : ",") + json_text(key) + ":" + json_text(value);
    }
    json += fmt::format("\"{}\":{{{}}}", kSafetensorsMetadataKey, members);
  }
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    check(tensor);
    if (!names.insert(tensor.name).second)
      fail(ErrorCode::invalid_argument, "safetensors writer: duplicate tensor name {}",
           in_quotes(tensor.name));
    std::string shape;
    for (int64_t dim : header_shape(tensor))
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", dim);
    const uint64_t end = offset + tensor.bytes.size();
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json.size() > 1 ? "," : "", json_text(tensor.name),
                        is_block_format(tensor.type) ? "U8" : tensor_type_info(tensor.type).name,
                        shape, offset, end);
    offset = end;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');  // so that the data is aligned
  check_header_size(json.size());
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json;
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header(tensors, metadata);
  ReplaceFile file(path);
  file.write(header);
  for (const SafetensorsTensor& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

}  // namespace strata
