// Included by isa_*_bf16_matmul.cpp inside strata's anonymous namespace, after matmul_format.inl.h
// and simd/elements.h:
// products of bf16 weights for levels that multiply pairs of bf16 numbers. Activations are rounded
// to bf16 (to nearest even), and a result is, over pairs of columns in order,
//   y = fma(w[k + 1], x[k + 1], y);  y = fma(w[k], x[k], y)
// with subnormal numbers taken as zero; a last odd column has a pair of zeros above it.

// Columns whose activations are rounded at a time.
constexpr int kBf16Columns = 512;

// kVectors x kTokens chains of fused multiply-adds.
template <int kVectors, int kTokens>
void bf16_tile(const MatmulArgs& a, int64_t row, int64_t token) {
  constexpr int64_t kPairBytes = 2 * kStripRows * 2;
  Strips strips[kVectors];
  STRATA_UNROLL
  for (int v = 0; v < kVectors; ++v) strips[v] = strips_at(a, row + v * kLanes);
  Floats y[kVectors][kTokens];
  STRATA_UNROLL
  for (int v = 0; v < kVectors; ++v) STRATA_UNROLL
  for (int t = 0; t < kTokens; ++t) y[v][t] = f_zero();
  for (int64_t first = 0; first < a.in; first += kBf16Columns) {
    const int64_t left = a.in - first;
    const int columns = left < kBf16Columns ? static_cast<int>(left) : kBf16Columns;
    int16_t x[kTokens][kBf16Columns];
    for (int t = 0; t < kTokens; ++t) {
      const float* from = a.floats + (token + t) * a.x_stride + first;
      for (int k = 0; k < columns; ++k) {
        BF16 rounded;
        from_float(from[k], rounded);
        x[t][k] = static_cast<int16_t>(rounded.bits);
      }
      if (columns % 2 != 0) x[t][columns] = 0;  // kBf16Columns is even
    }
    for (int k = 0; k < columns; k += 2) {
      Words w[kVectors];
      STRATA_UNROLL
      for (int v = 0; v < kVectors; ++v)
        w[v] = k + 1 < columns ? w_load_column_pairs(strips[v]) : w_load_last_column(strips[v]);
      STRATA_UNROLL
      for (int v = 0; v < kVectors; ++v) strips[v] = strips[v] + kPairBytes;
      STRATA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Words pair = w_broadcast_pair(&x[t][k]);
        STRATA_UNROLL
        for (int v = 0; v < kVectors; ++v) y[v][t] = f_add_bf16_pair_dot(y[v][t], w[v], pair);
      }
    }
  }
  store_tile<kVectors, kTokens>(a, y, row, token);
}

template <int kVectors>
void bf16_vectors(const MatmulArgs& a, int64_t row) {
  int64_t token = 0;
  for (; token + 4 <= a.tokens; token += 4) bf16_tile<kVectors, 4>(a, row, token);
  for (; token < a.tokens; ++token) bf16_tile<kVectors, 1>(a, row, token);
}

void matmul_bf16(const MatmulArgs& a) noexcept {
  int64_t row = 0;
  for (; row + 4 * kLanes <= a.rows; row += 4 * kLanes) bf16_vectors<4>(a, row);
  for (; row < a.rows; row += kLanes) bf16_vectors<1>(a, row);
}

constexpr MatmulKernels make_bf16_kernels() {
  MatmulKernels kernels = {};
  kernels.matmul[static_cast<int>(TensorType::bf16)] = matmul_bf16;
  kernels.bf16_activations = true;
  return kernels;
}
