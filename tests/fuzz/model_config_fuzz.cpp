// A config.json from nowhere: refused with an Error, or a specification whose numbers agree.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "model/key_reader.h"
#include "model/spec.h"

namespace strata {
namespace {

void exercise(std::string_view text) {
  const Json config = parse_json(text);
  if (!config.is_object()) return;
  JsonKeys keys(config, "config.json");
  const ModelSpec spec = read_hf_spec(keys);
  const ModelConfig& c = spec.config;
  STRATA_ASSERT(c.layers > 0 && spec.layers.size() == static_cast<size_t>(c.layers));
  STRATA_ASSERT(c.kv_heads > 0 && c.heads % c.kv_heads == 0 && c.head_size > 0);
  for (const LayerSpec& layer : spec.layers) {
    STRATA_ASSERT(layer.window >= 0);
    STRATA_ASSERT(layer.rope < static_cast<int>(spec.ropes.size()));
  }
}

}  // namespace
}  // namespace strata

// An Error about the input is a right answer; anything else that is thrown is a find.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    strata::exercise({reinterpret_cast<const char*>(data), size});
  } catch (const strata::Error& e) {
    if (e.code() == strata::ErrorCode::internal) throw;
  }
  return 0;
}
