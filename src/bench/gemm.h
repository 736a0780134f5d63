#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "numeric/tensor_type.h"
#include "ops/context.h"

namespace strata {

// One product to measure: y [tokens, out] = x [tokens, in] w^T.
struct GemmCase {
  std::string model;  // whose shape it is
  TensorType type = TensorType::q4_1;
  int64_t tokens = 1;
  int64_t out = 0;
  int64_t in = 0;
};

struct GemmResult {
  GemmCase shape;
  double seconds = 0;    // median of one product, quantising included
  double spread = 0;     // (largest - smallest) / median over the repeats
  double gop_s = 0;      // 2 * tokens * out * in / seconds / 1e9
  double read_gb_s = 0;  // packed bytes of w / seconds / 1e9
};

// The linear shapes of the catalogue's models at 1 token and at 512.
std::vector<GemmCase> default_gemm_cases();

// Measures one case: the weights are random and, below 64 tokens, copied until
// the caches cannot hold them, as in a decode step; warm-up, then repeats of
// about 30 ms.
GemmResult measure_gemm(const GemmCase& shape, const OpContext& context, int repeats = 7);

}  // namespace strata
