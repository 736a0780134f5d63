#include "base/replace_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace strata {

ReplaceFile::ReplaceFile(std::filesystem::path path) : path_(std::move(path)) {
  static std::atomic<int> serial{0};  // two threads may write the same name
  temporary_ = path_;
  temporary_ += fmt::format(".{}-{}.tmp", getpid(), serial++);
  file_ = std::fopen(temporary_.c_str(), "wbxe");
  if (file_ == nullptr)
    fail(ErrorCode::invalid_argument, "{}: cannot create: {}", path_.string(),
         std::strerror(errno));
}

ReplaceFile::~ReplaceFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void ReplaceFile::fail_writing() const {
  fail(ErrorCode::resource_exhausted, "{}: cannot write: {}", path_.string(), std::strerror(errno));
}

void ReplaceFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // fwrite takes no null pointer, whatever the size
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_writing();
}

void ReplaceFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void ReplaceFile::commit() {
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) fail_writing();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_writing();
  std::fclose(std::exchange(file_, nullptr));
  sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    fail(ErrorCode::not_found, "{}: cannot be opened: {}", folder.string(), std::strerror(errno));
  const bool failed = fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int why = errno;
  close(descriptor);
  if (failed)
    fail(ErrorCode::resource_exhausted, "{}: cannot be flushed: {}", folder.string(),
         std::strerror(why));
}

}  // namespace strata
