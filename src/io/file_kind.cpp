#include "io/file_kind.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace strata {

std::string_view recognise_other_kind(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                        std::min<size_t>(bytes.size(), 256));
  if (text.starts_with("version https://git-lfs") || text.starts_with("version https://hawser"))
    return "a Git LFS pointer file, not the weights (fetch them with `git lfs pull`)";
  if (text.starts_with("PK\x03\x04"))
    return "a zip archive, as PyTorch's .bin and .pt (pickle) checkpoints are; convert it to "
           "safetensors";
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return "a Python pickle; convert it to safetensors";
  if (text.starts_with("GGUF")) return "a GGUF file; give it the ending .gguf";
  if (text.starts_with("lmgg") || text.starts_with("tjgg") || text.starts_with("fmgg"))
    return "a model of the time before GGUF; convert it to GGUF";
  if (text.starts_with("\x1f\x8b")) return "a gzip archive; unpack it first";
  if (text.starts_with("\x89HDF")) return "an HDF5 file; convert it to safetensors";
  const std::string_view length_and_brace = text.substr(0, 9);
  if (length_and_brace.size() == 9 && length_and_brace[8] == '{' && length_and_brace[7] == 0)
    return "a safetensors file; give it the ending .safetensors";

  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0]))) text.remove_prefix(1);
  std::string start(text.substr(0, 9));
  for (char& c : start) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (start.starts_with("<!doctype") || start.starts_with("<html"))
    return "a web page (HTML), so the download went wrong; fetch the file again";
  if (start.starts_with("<?xml")) return "an XML text, so the download went wrong";
  if (start.starts_with("{")) return "a JSON text, so the download may have gone wrong";
  return {};
}

}  // namespace strata
