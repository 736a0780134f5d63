// Included by isa_*_matmul.cpp inside strata's anonymous namespace.

inline int8_t round_to_int8(float v) {
  // Adding 1.5 * 2^23 leaves the integer, rounded half to even, in the low bits.
  const float shifted = v + 12582912.0f;
  return static_cast<int8_t>(__builtin_bit_cast(int32_t, shifted) & 255);
}

void quantize_row(const float* x, int64_t in, ActivationBlock* out) noexcept {
  for (int64_t k = 0; k < in; k += ActivationBlock::kElements, x += 32, ++out) {
    // Bits rather than floats are compared: among the bits of magnitudes NaN is above infinity is
    // above every number, so the largest tells whether all are finite.
    int32_t top = 0;
    for (int i = 0; i < 32; ++i) {
      const int32_t magnitude = __builtin_bit_cast(int32_t, x[i]) & 0x7fffffff;
      top = magnitude > top ? magnitude : top;
    }
    const float amax = __builtin_bit_cast(float, top);
    const bool finite = top < 0x7f800000;
    const bool zero = finite && amax < kActivationFloor;
    if (!finite || zero) {
      for (int i = 0; i < 32; ++i) out->q[i] = 0;
      out->scale = zero ? 0.0f : __builtin_nanf("");
      out->scaled_sum = out->scale;
      out->sums[0] = out->sums[1] = 0;
      continue;
    }
    const float inverse = 127.0f / amax;
    int sums[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        out->q[i] = round_to_int8(x[i] * inverse);
        sums[half] += out->q[i];
      }
      out->sums[half] = static_cast<int16_t>(sums[half]);
    }
    out->scale = amax / 127.0f;
    out->scaled_sum = out->scale * static_cast<float>(sums[0] + sums[1]);
  }
}
