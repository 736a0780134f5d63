#include "model/model_hash.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/sha256.h"

namespace strata {
namespace {

// Pieces of a tensor that are hashed. Each may cost a read of one page from disk, so few.
constexpr size_t kSamples = 4;
constexpr size_t kSampleBytes = 64;

void add_header(Sha256& sum, const std::string& path, uint64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string buffer(1 << 16, '\0');
  while (bytes > 0 && file) {
    const auto wanted = static_cast<std::streamsize>(std::min<uint64_t>(bytes, buffer.size()));
    file.read(buffer.data(), wanted);
    sum.update(std::string_view(buffer).substr(0, static_cast<size_t>(file.gcount())));
    bytes -= static_cast<uint64_t>(file.gcount());
  }
  if (bytes > 0)
    fail(ErrorCode::data_corrupt, "{}: ended while its header was read for the model's hash", path);
}

void add_samples(Sha256& sum, std::span<const std::byte> bytes) {
  if (bytes.size() <= kSamples * kSampleBytes) {
    sum.update(bytes);
    return;
  }
  for (size_t i = 0; i < kSamples; ++i)
    sum.update(bytes.subspan((bytes.size() - kSampleBytes) / (kSamples - 1) * i, kSampleBytes));
}

}  // namespace

std::string model_hash(const TensorStore& store, std::string_view config) {
  Sha256 sum;
  sum.update(fmt::format("strata model 1\n{}\n", config.size()));
  sum.update(config);
  std::map<int, uint64_t> header_bytes;
  for (const StoredTensor& tensor : store.tensors()) {
    const auto [it, is_new] = header_bytes.emplace(tensor.file, tensor.file_offset);
    if (!is_new) it->second = std::min(it->second, tensor.file_offset);
  }
  for (const auto& [file, bytes] : header_bytes)
    add_header(sum, store.files()[static_cast<size_t>(file)], bytes);
  for (const StoredTensor& tensor : store.tensors()) {
    sum.update(fmt::format("{} {}", tensor.name, tensor_type_info(tensor.type).name));
    for (int64_t d : tensor.shape) sum.update(fmt::format(" {}", d));
    sum.update("\n");
    add_samples(sum, tensor.bytes);
    // Around each sample the kernel maps 64 KB: too much to leave until the tensor is packed.
    store.release_pages(tensor.bytes);
  }
  return sum.hex_digest();
}

}  // namespace strata
