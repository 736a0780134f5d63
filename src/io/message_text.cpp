#include "io/message_text.h"

#include <fmt/core.h>

#include "base/utf8.h"

namespace strata {

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  while (!text.empty()) {
    if (out.size() > kLongest) return out + "...'";
    const Utf8Step step = decode_utf8(text);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(step.length));
    const bool plain = step.valid && step.code_point >= 0x20 && step.code_point != '\'' &&
                       step.code_point != '\\' &&
                       (step.code_point < 0x7f || step.code_point >= 0xa0) &&
                       step.code_point != 0x2028 && step.code_point != 0x2029;
    if (plain) {
      out += bytes;
    } else {
      for (char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(bytes.size());
  }
  return out + "'";
}

}  // namespace strata
