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

// Bytes that shape and type ask for.
uint64_t size_of(const SafetensorsTensor& tensor) {
  const bool is_plain = tensor.type == TensorType::f32 || tensor.type == TensorType::f16 ||
                        tensor.type == TensorType::bf16;
  if (!is_plain)
    fail(ErrorCode::invalid_argument,
         "safetensors writer: tensor {} has type {}, wanted F32, F16 or BF16",
         in_quotes(tensor.name), tensor_type_info(tensor.type).name);
  uint64_t size = static_cast<uint64_t>(tensor_type_info(tensor.type).block_bytes);
  for (int64_t dim : tensor.shape) {
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
                               const std::map<std::string, std::string>& metadata) {
  if (tensors.size() > kMaxSafetensorsTensors)
    fail(ErrorCode::invalid_argument, "safetensors writer: {} tensors, wanted at most {}",
         tensors.size(), kMaxSafetensorsTensors);
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
    for (int64_t dim : tensor.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", dim);
    const uint64_t end = offset + tensor.bytes.size();
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json.size() > 1 ? "," : "", json_text(tensor.name),
                        tensor_type_info(tensor.type).name, shape, offset, end);
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
