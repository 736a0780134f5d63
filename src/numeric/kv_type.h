#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

// How keys and values are stored in the pages of the KV cache.
enum class KvType : uint8_t { f32, f16, bf16 };

constexpr std::string_view kv_type_name(KvType type) {
  return type == KvType::f32 ? "f32" : type == KvType::f16 ? "f16" : "bf16";
}

inline constexpr int kv_type_bytes(KvType type) { return type == KvType::f32 ? 4 : 2; }

}  // namespace strata
