#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// Loops that keep one unit of the machine busy and do nothing else, for
// measuring its limits. All return the operations done, a multiply and an add
// counting as two.
using ProbeFunction = int64_t (*)(int64_t iterations) noexcept;

struct ProbeKernels {
  // Reads `bytes` (a multiple of 128) once, in order; returns a value that
  // depends on every bit.
  uint64_t (*read)(const std::byte* p, int64_t bytes) noexcept;
  ProbeFunction fp32;
  // Products of int8 activations with weights whose codes have the range: the
  // sums matmul.inl.h needs for it, everything in registers.
  ProbeFunction int8_u4;
  ProbeFunction int8_u5;
  ProbeFunction int8_u6;
  ProbeFunction int8_s8;
};

}  // namespace strata
