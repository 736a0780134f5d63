#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace strata {

// A file without a name: gone with the process, however that ends.
class ScratchFile {
 public:
  // In `folder`; empty: $TMPDIR, else /var/tmp (/tmp is memory on many machines). Throws
  // invalid_argument when no file can be made there.
  explicit ScratchFile(const std::string& folder);
  // Over an open file, which it closes. place: for messages.
  ScratchFile(int file, std::string place);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // All of `bytes` at that offset. false: fault() says why; the file may have a part of them.
  [[nodiscard]] bool write(int64_t at, std::span<const std::byte> bytes);
  [[nodiscard]] bool read(int64_t at, std::span<std::byte> bytes);
  // Gives the room on the disk back. What cannot be cut is written over.
  void clear();
  const std::string& place() const { return place_; }
  const std::string& fault() const { return fault_; }

 private:
  bool failed(int error);

  int file_ = -1;
  std::string place_, fault_;
};

}  // namespace strata
