#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace strata {

// A regular file mapped read-only. Someone may truncate the file while it is mapped; reading a
// page that is gone raises SIGBUS, which by default kills the process. Here a process-wide handler
// puts a page of zeros in the place of the missing one and marks the mapping as damaged: readers
// see zeros, and check_intact() tells them afterwards that what they read was not the file.
class MappedFile {
 public:
  // Errors: not_found; invalid_argument for what is no regular file; resource_exhausted when
  // address space or the table of mappings (4096 at once) is full.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The whole file as it was long when it was opened; empty for an empty file.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // A page was missing when it was read, or the file is shorter now than when it was opened (the
  // end of its last page then reads as zeros without a fault). Thread-safe.
  bool damaged() const;
  // Throws data_corrupt naming the file when damaged().
  void check_intact() const;

  // Lets the kernel drop the pages that hold `part` (of bytes()); the next read fetches them again.
  void release_pages(std::span<const std::byte> part) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;  // in the table the signal handler reads
};

}  // namespace strata
