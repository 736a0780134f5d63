#include "train/training_text.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace strata {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr char32_t kCodePoints = 0x110000;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Where a piece of the text that has begun with `text` ends.
size_t cut_point(std::string_view text) {
  for (size_t at = text.size() - 1; at > text.size() / 2; --at)
    if ((text[at] == ' ' || text[at] == '\n') && is_letter(text[at - 1])) return at;
  return complete_utf8_prefix(text);
}

}  // namespace

TrainingText::TrainingText(const std::filesystem::path& path, const std::function<void()>& tick) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".txt") files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  } else {
    files_.push_back(path);
  }
  for (const auto& file : files_)
    if (!std::filesystem::is_regular_file(file, error))
      fail(ErrorCode::not_found, "train: {}: cannot be read: {}", file.string(),
           error ? error.message() : "it is no file");

  std::vector<bool> seen(kCodePoints, false);
  Sha256 sum;
  read([&](std::string_view piece) {
    if (tick) tick();
    sum.update(piece);
    for (size_t at = 0; at < piece.size();) {
      const Utf8Step step = decode_utf8(piece.substr(at));
      if (!step.valid)
        fail(ErrorCode::data_corrupt, "train: {}: byte {} of the text is no UTF-8", path.string(),
             bytes_ + static_cast<int64_t>(at));
      seen[step.code_point] = true;
      ++characters_;
      at += static_cast<size_t>(step.length);
    }
    bytes_ += static_cast<int64_t>(piece.size());
  });
  if (bytes_ == 0)
    fail(ErrorCode::data_corrupt, "train: {}: there is no text in it", path.string());
  hash_ = sum.hex_digest();
  for (char32_t c = 0; c < kCodePoints; ++c)
    if (seen[c]) alphabet_.push_back(c);
}

void TrainingText::read(const std::function<void(std::string_view)>& take) const {
  std::string pending, block(kPieceBytes, '\0');
  for (const std::filesystem::path& path : files_) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(ErrorCode::not_found, "train: {}: cannot be read", path.string());
    while (file) {
      file.read(block.data(), static_cast<std::streamsize>(block.size()));
      if (file.bad()) fail(ErrorCode::data_corrupt, "train: {}: cannot be read", path.string());
      pending.append(block, 0, static_cast<size_t>(file.gcount()));
      if (pending.size() < kPieceBytes) continue;
      const size_t cut = cut_point(pending);
      take(std::string_view(pending).substr(0, cut));
      pending.erase(0, cut);
    }
  }
  if (!pending.empty()) take(pending);
}

}  // namespace strata
