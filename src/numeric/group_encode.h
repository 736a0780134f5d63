#pragma once

#include <cstdint>

#include "numeric/tensor_type.h"

namespace strata {

// Whether `type` is a format of groups with f16 scales: I8_*, I4_*, I4Z_*, and Q8_0, Q4_0, Q4_1,
// which are their groups of 32.
bool is_group_type(TensorType type);

// Encodes `count` consecutive elements of a row (a multiple of the type's block_elements) by
// rounding to nearest, half to even; any alignment of `out`. Of a group with d and m as decoded
// from f16:
//   int8          d = amax / 127,                  q = x / d, within [-127, 127]
//   int4          d = -v / 8, v the element with the largest magnitude (the first of equals),
//                                                  q = x / d + 8, within [0, 15]
//   int4, offset  m = min, d = (max - m) / 15,     q = (x - m) / d, within [0, 15]
// A group whose d is 0 has the codes of 0 (of an offset: 0). |x - decoded| is at most d / 2 plus
// what rounding d and m to f16 moves the code: 2^-11 (|q d| + |m|), and 2^-25 a step where d is
// denormal; int4's largest element of the sign opposite to v may lose d / 2 more (code 16 is not
// there). False, and `out` undefined, where a value is not finite or a scale leaves f16's range.
// This is the reference; calibrated methods choose other d, m, q of the same formats.
[[nodiscard]] bool encode_groups(TensorType type, const float* x, void* out, int64_t count);

}  // namespace strata
