#include "io/mapped_store.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/message_text.h"

namespace strata {
namespace {

bool has_dot_component(std::string_view name) {
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    if (component == "." || component == "..") return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

bool has_control_character(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

}  // namespace

void check_tensor_name(std::string_view name, std::string_view file) {
  std::string_view problem;
  if (name.empty()) problem = "is empty";
  if (!is_valid_utf8(name)) problem = "is not well-formed UTF-8";
  if (has_control_character(name)) problem = "has a control character";
  if (name.find('\\') != std::string_view::npos || name.starts_with('/') || has_dot_component(name))
    problem = "is a path that leads elsewhere";
  if (!problem.empty())
    fail(ErrorCode::data_corrupt, "{}: tensor name {} {}", file, in_quotes(name), problem);
}

void check_distinct(const std::vector<StoredTensor>& tensors, std::string_view file) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);

  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->name == order[i - 1]->name)
      fail(ErrorCode::data_corrupt, "{}: duplicate tensor name {}", file,
           in_quotes(order[i]->name));

  std::erase_if(order, [](const StoredTensor* tensor) { return tensor->bytes.empty(); });
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->file_offset < b->file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint64_t former_end = order[i - 1]->file_offset + order[i - 1]->bytes.size();
    if (order[i]->file_offset < former_end)
      fail(ErrorCode::data_corrupt,
           "{}: tensors {} and {} overlap: one ends at byte offset {}, the other begins at {}",
           file, in_quotes(order[i - 1]->name), in_quotes(order[i]->name), former_end,
           order[i]->file_offset);
  }
}

void MappedTensorStore::add_file(std::unique_ptr<MappedFile> file,
                                 std::vector<StoredTensor> tensors) {
  const int number = static_cast<int>(files_.size());
  for (StoredTensor& tensor : tensors) {
    if (!index_.try_emplace(tensor.name, tensors_.size()).second)
      fail(ErrorCode::data_corrupt, "{}: duplicate tensor name {}", file->path(),
           in_quotes(tensor.name));
    tensor.file = number;
    tensors_.push_back(std::move(tensor));
  }
  paths_.push_back(file->path());
  files_.push_back(std::move(file));
}

void MappedTensorStore::add_unread(std::string name, std::string type) {
  unread_.insert_or_assign(std::move(name), std::move(type));
}

const StoredTensor* MappedTensorStore::find(std::string_view name) const {
  if (const auto it = index_.find(name); it != index_.end()) return &tensors_[it->second];
  if (const auto it = unread_.find(name); it != unread_.end())
    fail(ErrorCode::unsupported,
         "{}: tensor {} has type {}, which strata does not read; wanted F32, F16 or BF16",
         paths_.empty() ? "model" : paths_.front(), in_quotes(name), it->second);
  return nullptr;
}

uint64_t MappedTensorStore::file_bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files_) sum += file->bytes().size();
  return sum;
}

void MappedTensorStore::check_intact() const {
  for (const auto& file : files_) file->check_intact();
}

void MappedTensorStore::release_pages(std::span<const std::byte> part) const {
  for (const auto& file : files_) {
    const std::span<const std::byte> all = file->bytes();
    // Addresses of different mappings compare only by std::less.
    const bool begins_in = !std::less<>{}(part.data(), all.data()) &&
                           std::less<>{}(part.data(), all.data() + all.size());
    if (begins_in) return file->release_pages(part);
  }
}

}  // namespace strata
