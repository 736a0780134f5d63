// A config.json from nowhere: refused with an Error, or a specification whose numbers agree.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "model/key_reader.h"
#include "model/spec.h"
#include "refused_or_done.h"

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::refused_or_done([&] { strata::exercise({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
