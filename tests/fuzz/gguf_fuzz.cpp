#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "io/gguf.h"
#include "numeric/tensor_type.h"
#include "refused_or_done.h"

namespace strata {
namespace {

// Parses, describes every value, reads every kind of value by key, and decodes the first row of
// each tensor, so that a span that is too long is found by ASan.
void exercise(std::span<const std::byte> input) {
  const GgufContent content = parse_gguf(input, "fuzz.gguf");
  for (const auto& [key, value] : content.metadata.values()) {
    describe(value);
    try {
      content.metadata.find_i32s(key);
    } catch (const Error&) {
    }
    try {
      content.metadata.find_f32s(key);
    } catch (const Error&) {
    }
    try {
      content.metadata.find_u64(key);
    } catch (const Error&) {
    }
  }
  for (const StoredTensor& tensor : content.tensors) {
    const TensorTypeInfo& info = tensor_type_info(tensor.type);
    const int64_t blocks = tensor.elements() / info.block_elements;
    if (blocks * info.block_bytes != static_cast<int64_t>(tensor.bytes.size()))
      fail(ErrorCode::internal, "tensor size and shape disagree");
    std::vector<float> block(static_cast<size_t>(info.block_elements));
    for (int64_t i : {int64_t{0}, blocks - 1})
      decode_elements(tensor.type, tensor.bytes.data() + i * info.block_bytes, block.data(),
                      info.block_elements);
  }
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::refused_or_done([&] { strata::exercise(std::as_bytes(std::span(data, size))); });
  return 0;
}
