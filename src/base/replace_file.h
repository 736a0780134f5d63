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
  // Flushes to the disk and renames; the folder is flushed too, so that the file is there under its
  // name after a power failure.
  void commit();

 private:
  [[noreturn]] void fail_writing() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::FILE* file_ = nullptr;
};

// Flushes a folder's list of names to the disk: what was created, renamed and removed in it. Throws
// Error{not_found} without the folder, {resource_exhausted} when the disk fails; both name it. File
// systems that cannot are left alone.
void sync_folder(const std::filesystem::path& folder);

}  // namespace strata
