// Config files: refused with Error{invalid_argument} only, and every entry has a key and a line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/config_file.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto entries =
        strata::parse_config({reinterpret_cast<const char*>(data), size}, "f.toml");
    for (const strata::ConfigEntry& entry : entries) {
      if (entry.line < 1 || (!entry.is_list && entry.values.size() != 1)) std::abort();
    }
  } catch (const strata::Error& e) {
    if (e.code() != strata::ErrorCode::invalid_argument) std::abort();
  }
  return 0;
}
