#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>

namespace strata {

// Writes a file whole or not at all: into NAME.PID.tmp beside it, renamed over NAME by commit(). A
// file that is mapped or read under the old name keeps its content. Without commit() the temporary
// file is removed. Errors: invalid_argument when it cannot be created, resource_exhausted when
// writing fails (disk full); both name the file.
class ReplaceFile {
 public:
  explicit ReplaceFile(std::filesystem::path path);
  ~ReplaceFile();
  ReplaceFile(const ReplaceFile&) = delete;
  ReplaceFile& operator=(const ReplaceFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Flushes to the disk and renames.
  void commit();

 private:
  [[noreturn]] void fail_writing() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace strata
