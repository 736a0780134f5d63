// A tokenizer.json from nowhere: it is refused with an Error or gives a tokenizer that encodes and
// decodes any text without fault. The text is what follows the first zero byte of the input.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::set_log_level(strata::LogLevel::off);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  strata::TokenizerFiles files;
  files.source = "fuzz";
  files.tokenizer = std::string(input.substr(0, cut));
  const std::string_view text =
      cut == std::string_view::npos ? "a b <s>\xF0\x9F\x98\x80 12" : input.substr(cut + 1);
  try {
    const auto tokenizer = strata::tokenizer_from_json(files);
    for (const auto control : {strata::ControlText::as_text, strata::ControlText::parse})
      tokenizer->decode(tokenizer->encode(text, {.control = control}), true);
  } catch (const strata::Error&) {
  }
  return 0;
}
