#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "io/tensor_store.h"

namespace strata {

// Throws data_corrupt unless `name` can be a tensor's name: not empty, well-formed UTF-8 without
// control characters, and no path that leads out of a folder (some tools make one file per tensor):
// no backslash, no leading slash, no component "." or "..".
void check_tensor_name(std::string_view name, std::string_view file);

// Throws data_corrupt when two of the tensors (of one file) have a name or a byte in common.
void check_distinct(const std::vector<StoredTensor>& tensors, std::string_view file);

// A TensorStore over mapped files; the readers of the formats fill it.
class MappedTensorStore : public TensorStore {
 public:
  // Takes over a mapped file and the tensors in it. Throws data_corrupt for a name that another
  // file of the model has too.
  void add_file(std::unique_ptr<MappedFile> file, std::vector<StoredTensor> tensors);
  // A tensor that is in a file but has a type strata does not read: find() refuses it by name.
  void add_unread(std::string name, std::string type);

  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  // Throws unsupported for a tensor of a type strata does not read.
  const StoredTensor* find(std::string_view name) const override;
  const std::vector<std::string>& files() const override { return paths_; }
  uint64_t file_bytes() const override;
  void check_intact() const override;
  void release_pages(std::span<const std::byte> part) const override;

  // Tensors with a type strata does not read: name to type ("I64"), for `inspect`.
  const std::map<std::string, std::string, std::less<>>& unread() const { return unread_; }

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<std::string> paths_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string, std::less<>> unread_;
};

}  // namespace strata
