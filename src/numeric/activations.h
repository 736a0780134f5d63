#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

// How rows of activations meet quantised weights. The weights' own values are exact in both.
enum class Activations : uint8_t {
  int8,    // int8 in blocks of 32 (activation_block.h)
  int8x2,  // and int8 again of what that lost: as f32 activations for most purposes, half the speed
};

constexpr std::string_view activations_name(Activations a) {
  return a == Activations::int8 ? "int8" : "int8x2";
}

}  // namespace strata
