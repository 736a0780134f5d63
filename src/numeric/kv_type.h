#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace strata {

// How keys and values are stored in the pages of the KV cache.
// q8, q4: integers with an f16 scale for every 32 elements of a token and head.
enum class KvType : uint8_t { f32, f16, bf16, q8, q4 };

inline constexpr std::string_view kKvTypeNames[] = {"f32", "f16", "bf16", "q8", "q4"};
inline constexpr int kKvTypes = static_cast<int>(std::size(kKvTypeNames));

constexpr std::string_view kv_type_name(KvType type) {
  return kKvTypeNames[static_cast<size_t>(type)];
}

// Empty for a name that is none of kKvTypeNames.
constexpr std::optional<KvType> kv_type_of(std::string_view name) {
  for (int i = 0; i < kKvTypes; ++i)
    if (kKvTypeNames[i] == name) return static_cast<KvType>(i);
  return std::nullopt;
}

// How many tokens a page of the cache may hold: divisors of attention's chunk
// (kernels/attention.h), so that results do not depend on it.
inline constexpr int kPageSizes[] = {8, 16, 32, 64};
inline constexpr int kDefaultPageTokens = 16;

constexpr bool is_page_size(int64_t tokens) {
  for (const int size : kPageSizes)
    if (size == tokens) return true;
  return false;
}

constexpr bool is_quantized(KvType type) { return type == KvType::q8 || type == KvType::q4; }

// Of an element: 32, 16, 8 or 4, scales apart.
constexpr int kv_type_bits(KvType type) {
  return type == KvType::f32 ? 32 : type == KvType::q8 ? 8 : type == KvType::q4 ? 4 : 16;
}

}  // namespace strata
