#include "base/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

std::string folder_or_default(const std::string& folder) {
  if (!folder.empty()) return folder;
  const char* set = std::getenv("TMPDIR");
  return set != nullptr && *set != '\0' ? set : "/var/tmp";
}

int open_nameless(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // File systems that know no O_TMPFILE (NFS, some overlays): a name for an instant.
  std::string name = folder + "/strata-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

ScratchFile::ScratchFile(const std::string& folder) : place_(folder_or_default(folder)) {
  file_ = open_nameless(place_);
  if (file_ < 0)
    fail(ErrorCode::invalid_argument, "{}: no file can be made there: {}", place_, text_of(errno));
}

ScratchFile::ScratchFile(int file, std::string place) : file_(file), place_(std::move(place)) {}

ScratchFile::~ScratchFile() { ::close(file_); }

bool ScratchFile::failed(int error) {
  fault_ = text_of(error);
  return false;
}

bool ScratchFile::write(int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += n;
  }
  return true;
}

bool ScratchFile::read(int64_t at, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(file_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(n < 0 ? errno : EIO);  // 0: shorter than what was written
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += n;
  }
  return true;
}

void ScratchFile::clear() { static_cast<void>(::ftruncate(file_, 0) == 0); }

}  // namespace strata
