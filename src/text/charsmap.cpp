#include "text/charsmap.h"

#include <cstdint>

#include "base/error.h"

namespace strata {
namespace {

uint32_t load_u32(const char* p) {
  uint32_t v = 0;
  for (int i = 3; i >= 0; --i) v = v << 8 | static_cast<unsigned char>(p[i]);
  return v;
}

bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xFFu); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::span<const char> bytes, std::string_view source) {
  if (bytes.empty()) return;
  const size_t trie_bytes = bytes.size() < 4 ? 0 : load_u32(bytes.data());
  if (bytes.size() < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4)
    fail(ErrorCode::data_corrupt,
         "{}: precompiled_charsmap: {} bytes cannot hold a trie of {} bytes", source, bytes.size(),
         trie_bytes);
  units_.resize(trie_bytes / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = load_u32(bytes.data() + 4 + i * 4);
  const auto rest = bytes.subspan(4 + trie_bytes);
  replacements_.assign(rest.begin(), rest.end());
  if (!units_.empty() && (replacements_.empty() || replacements_.back() != '\0'))
    fail(ErrorCode::data_corrupt, "{}: precompiled_charsmap: the last replacement has no end",
         source);
}

Charsmap::Hit Charsmap::find(std::string_view text, bool longest) const {
  Hit hit;
  if (units_.empty()) return hit;
  // A broken trie may point anywhere: outside it nothing is found.
  const auto unit = [&](size_t i) { return i < units_.size() ? units_[i] : 0u; };
  size_t node = offset_of(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label_of(unit(node)) != byte) break;
    const bool leaf = has_leaf(unit(node));
    node ^= offset_of(unit(node));
    if (!leaf) continue;
    const size_t at = value_of(unit(node));
    if (node >= units_.size() || at >= replacements_.size()) break;
    hit.length = i + 1;
    // Ended by the zero byte that the constructor has seen.
    hit.replacement = std::string_view(replacements_.c_str() + at);
    if (!longest) break;
  }
  return hit;
}

Charsmap::Hit Charsmap::longest_prefix(std::string_view text) const { return find(text, true); }
Charsmap::Hit Charsmap::shortest_prefix(std::string_view text) const { return find(text, false); }

}  // namespace strata
