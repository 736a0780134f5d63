#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "refused_or_done.h"

namespace strata {
namespace {

// What is read can be written, and reads back the same.
void exercise(std::span<const std::byte> input) {
  const SafetensorsContent content = parse_safetensors(input, "fuzz.safetensors");
  std::vector<SafetensorsTensor> tensors;
  std::string data;
  for (const StoredTensor& tensor : content.tensors) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  std::string copy;
  try {
    copy = safetensors_header(tensors, content.metadata) + data;
  } catch (const Error& e) {
    fail(ErrorCode::internal, "what was read cannot be written: {}", e.what());
  }
  const SafetensorsContent again =
      parse_safetensors(std::as_bytes(std::span(copy.data(), copy.size())), "copy.safetensors");
  bool same = again.metadata == content.metadata && again.tensors.size() == tensors.size();
  for (size_t i = 0; same && i < tensors.size(); ++i)
    same = again.tensors[i].bytes.size() == content.tensors[i].bytes.size();
  if (!same) fail(ErrorCode::internal, "what was written reads differently");
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::refused_or_done([&] { strata::exercise(std::as_bytes(std::span(data, size))); });
  return 0;
}
