#include "io/gguf_writer.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/replace_file.h"
#include "io/gguf.h"
#include "io/mapped_store.h"
#include "io/message_text.h"

namespace strata {
namespace {

template <typename Number>
void put(std::string& out, Number value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

void put_array(std::string& out, const GgufArray& array) {
  STRATA_ASSERT(array.element_type != GgufType::array);
  put(out, static_cast<uint32_t>(array.element_type));
  put(out, array.count);
  if (array.element_type == GgufType::string) {
    for (size_t i = 0; i < array.strings.size(); ++i) put_text(out, array.strings[i]);
  } else {
    out.append(reinterpret_cast<const char*>(array.numbers.data()), array.numbers.size());
  }
}

// The low bytes of the held number are its narrower form (two's complement, little-endian).
template <typename Number>
void put_narrowed(std::string& out, Number value, GgufType type) {
  out.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(gguf_value_bytes(type)));
}

void put_value(std::string& out, const GgufValue& value) {
  put(out, static_cast<uint32_t>(value.type));
  if (const auto* number = std::get_if<uint64_t>(&value.data))
    put_narrowed(out, *number, value.type);
  else if (const auto* integer = std::get_if<int64_t>(&value.data))
    put_narrowed(out, *integer, value.type);
  else if (const auto* flag = std::get_if<bool>(&value.data))
    put(out, static_cast<uint8_t>(*flag));
  else if (const auto* text = std::get_if<std::string>(&value.data))
    put_text(out, *text);
  else if (const auto* array = std::get_if<GgufArray>(&value.data))
    put_array(out, *array);
  else if (const double real = std::get<double>(value.data); value.type == GgufType::f32)
    put(out, static_cast<float>(real));
  else
    put(out, real);
}

uint64_t padding(uint64_t size, uint64_t alignment) {
  return checked_align_up(size, alignment).value() - size;
}

}  // namespace

void GgufWriter::set(std::string key, GgufValue value) {
  if (key.empty() || key.size() > kMaxGgufNameBytes)
    fail(ErrorCode::invalid_argument, "GGUF writer: metadata key {}: wanted 1 to {} bytes",
         in_quotes(key), kMaxGgufNameBytes);
  values_.insert_or_assign(std::move(key), std::move(value));
}

void GgufWriter::add_tensor(std::string name, TensorType type, std::vector<int64_t> shape,
                            std::span<const std::byte> bytes) {
  check_tensor_name(name, "GGUF writer");
  const TensorTypeInfo& info = tensor_type_info(type);
  if (!gguf_id_of(type))
    fail(ErrorCode::invalid_argument, "GGUF writer: tensor {}: GGUF has no {}; write safetensors",
         in_quotes(name), info.name);
  uint64_t elements = 1;
  for (int64_t dim : shape) {
    const auto product = dim > 0 ? checked_multiply(elements, static_cast<uint64_t>(dim)) : 0;
    if (!product || *product == 0)
      fail(ErrorCode::invalid_argument, "GGUF writer: tensor {}: dimension {}", in_quotes(name),
           dim);
    elements = *product;
  }
  const int64_t columns = shape.empty() ? 1 : shape.back();
  if (shape.size() > kMaxGgufDims || columns % info.block_elements != 0)
    fail(ErrorCode::invalid_argument,
         "GGUF writer: tensor {}: {} dimensions, rows of {}; wanted at most {} and whole blocks of "
         "{} for {}",
         in_quotes(name), shape.size(), columns, kMaxGgufDims, info.block_elements, info.name);
  const auto size = checked_multiply(elements / static_cast<uint64_t>(info.block_elements),
                                     static_cast<uint64_t>(info.block_bytes));
  if (!size || bytes.size() != *size)
    fail(ErrorCode::invalid_argument, "GGUF writer: tensor {}: {} bytes given, wanted {}",
         in_quotes(name), bytes.size(), size.value_or(0));
  if (!names_.insert(name).second)
    fail(ErrorCode::invalid_argument, "GGUF writer: duplicate tensor name {}", in_quotes(name));
  tensors_.push_back({std::move(name), type, std::move(shape), bytes});
}

uint64_t GgufWriter::alignment() const {
  const auto it = values_.find("general.alignment");
  if (it == values_.end()) return 32;
  const auto* value = std::get_if<uint64_t>(&it->second.data);
  if (value == nullptr || *value < 8 || *value > kMaxGgufAlignment || (*value & (*value - 1)) != 0)
    fail(ErrorCode::invalid_argument,
         "GGUF writer: general.alignment is {}, wanted a power of two from 8 to {}",
         describe(it->second), kMaxGgufAlignment);
  return *value;
}

std::string GgufWriter::header() const {
  const uint64_t alignment = this->alignment();
  std::string out = "GGUF";
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, uint64_t{values_.size()});
  for (const auto& [key, value] : values_) {
    put_text(out, key);
    put_value(out, value);
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim)
      put(out, static_cast<uint64_t>(*dim));
    put(out, *gguf_id_of(tensor.type));
    put(out, offset);
    offset += tensor.bytes.size() + padding(tensor.bytes.size(), alignment);
  }
  out.append(padding(out.size(), alignment), '\0');
  return out;
}

std::string GgufWriter::bytes() const {
  std::string out = header();
  for (const Tensor& tensor : tensors_) {
    out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    out.append(padding(tensor.bytes.size(), alignment()), '\0');
  }
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  ReplaceFile file(path);
  file.write(header());
  for (const Tensor& tensor : tensors_) {
    file.write(tensor.bytes);
    file.write(std::string(padding(tensor.bytes.size(), alignment()), '\0'));
  }
  file.commit();
}

}  // namespace strata
