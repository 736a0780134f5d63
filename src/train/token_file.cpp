#include "train/token_file.h"

#include <cstring>
#include <limits>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/replace_file.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace strata {
namespace {

constexpr char kMagic[9] = "STRATOK1";
constexpr size_t kKeyCharacters = 64;

struct Trailer {
  char magic[8];
  uint32_t width;
  uint32_t reserved;
  int64_t train;
  int64_t validation;
  char key[kKeyCharacters];
  char zeros[32];
};
static_assert(sizeof(Trailer) == 128);

// The bytes of the first `characters` characters.
size_t bytes_of(std::string_view text, int64_t characters) {
  size_t at = 0;
  for (int64_t i = 0; i < characters; ++i)
    at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
  return at;
}

void write_tokens(ReplaceFile& file, const std::vector<int32_t>& tokens, size_t width) {
  if (width == sizeof(uint32_t)) return file.write(std::as_bytes(std::span(tokens)));
  const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  file.write(std::as_bytes(std::span(narrow)));
}

TokenData map_tokens(std::shared_ptr<const MappedFile> file, const Trailer& t) {
  const int width = static_cast<int>(t.width);
  TokenData data;
  data.train = {file->bytes().data(), width, t.train};
  data.validation = {file->bytes().data() + t.train * width, width, t.validation};
  data.file = std::move(file);
  return data;
}

}  // namespace

std::string token_file_key(const std::string& text_hash, const std::string& tokenizer_json,
                           double validation_share) {
  return sha256_hex(
      fmt::format("{} {} {}", text_hash, sha256_hex(tokenizer_json), validation_share));
}

TokenData write_token_file(const std::filesystem::path& path, const TrainingText& text,
                           const Tokenizer& tokenizer, double validation_share,
                           const std::string& key, const std::function<void(double)>& tick) {
  STRATA_ASSERT(key.size() == kKeyCharacters);
  Trailer trailer{};
  std::memcpy(trailer.magic, kMagic, sizeof trailer.magic);
  std::memcpy(trailer.key, key.data(), kKeyCharacters);
  const bool narrow = tokenizer.vocabulary_size() <= std::numeric_limits<uint16_t>::max() + 1;
  trailer.width = narrow ? 2 : 4;

  ReplaceFile file(path);
  std::vector<int32_t> tokens;
  int64_t bytes = 0;
  // Tokens of the text that comes next go to `count`.
  const auto add = [&](std::string_view part, int64_t& count) {
    if (part.empty()) return;
    tokens.clear();
    encode_training_text(part, bytes, tokenizer, tokens);
    write_tokens(file, tokens, trailer.width);
    count += static_cast<int64_t>(tokens.size());
    bytes += static_cast<int64_t>(part.size());
  };
  int64_t left = training_characters(text.characters(), validation_share);
  text.read([&](std::string_view piece) {
    if (tick) tick(static_cast<double>(bytes) / static_cast<double>(text.bytes()));
    const int64_t characters = count_code_points(piece);
    const size_t split = characters <= left ? piece.size() : bytes_of(piece, left);
    left -= std::min(left, characters);
    add(piece.substr(0, split), trailer.train);
    add(piece.substr(split), trailer.validation);
  });
  file.write(std::as_bytes(std::span(&trailer, 1)));
  file.commit();
  return map_tokens(std::make_shared<const MappedFile>(path), trailer);
}

std::optional<TokenFile> open_token_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  Trailer t{};
  const auto refuse = [&](const char* what) {
    fail(ErrorCode::data_corrupt, "train: {}: {}; remove it and it is made again", path.string(),
         what);
  };
  if (bytes.size() < sizeof t) refuse("is no token file");
  std::memcpy(&t, bytes.data() + bytes.size() - sizeof t, sizeof t);
  if (std::memcmp(t.magic, kMagic, sizeof t.magic) != 0 ||
      (t.width != sizeof(uint16_t) && t.width != sizeof(uint32_t)))
    refuse("is no token file");
  const auto most = static_cast<int64_t>((bytes.size() - sizeof t) / t.width);
  if (t.train < 0 || t.validation < 0 || t.train > most || t.validation != most - t.train ||
      (bytes.size() - sizeof t) % t.width != 0)
    refuse("its length is not what its end says");
  return TokenFile{map_tokens(std::move(file), t), std::string(t.key, kKeyCharacters)};
}

}  // namespace strata
