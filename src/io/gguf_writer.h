#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/gguf_metadata.h"
#include "numeric/tensor_type.h"

namespace strata {

// Collects metadata and tensors and writes a GGUF v3 file that parse_gguf accepts.
//   GgufWriter writer;
//   writer.set("general.architecture", GgufValue::of_string("llama"));
//   writer.add_tensor("token_embd.weight", TensorType::f32, {vocab, width}, bytes);
//   writer.write("model.gguf");
class GgufWriter {
 public:
  // A later value of a key replaces the former. general.alignment is honoured when it is set.
  void set(std::string key, GgufValue value);
  // shape in PyTorch order. `bytes` is not copied and must live until the file is written. Throws
  // invalid_argument when shape, type and number of bytes disagree, for a name that was given
  // before, and for what the reader would refuse.
  void add_tensor(std::string name, TensorType type, std::vector<int64_t> shape,
                  std::span<const std::byte> bytes);

  // The whole file in memory; for small files and tests.
  std::string bytes() const;
  // Written beside `path` and renamed when whole (base/replace_file.h).
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };

  uint64_t alignment() const;
  std::string header() const;  // up to the data, padded

  std::map<std::string, GgufValue> values_;
  std::vector<Tensor> tensors_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace strata
