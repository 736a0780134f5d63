#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/result.h"
#include "model/model.h"
#include "numeric/tensor_type.h"
#include "ops/context.h"

namespace strata {

// One product to measure: y [tokens, out] = x [tokens, in] w^T.
struct GemmCase {
  std::string model;  // whose shape it is; may be empty
  std::string name;   // which of its products: "gate"
  TensorType type = TensorType::q4_1;
  int64_t tokens = 1;
  int64_t out = 0;
  int64_t in = 0;
};

// The linear shapes of the catalogue's models at each number of tokens; the head only below 64:
// prompts never multiply every row with it.
std::vector<GemmCase> default_gemm_cases(std::span<const int64_t> tokens);
// Likewise each different linear shape of a model.
std::vector<GemmCase> model_gemm_cases(const Model& model, std::span<const int64_t> tokens);

// Throws Error{invalid_argument} for sizes that are no matrix of the type.
void check_case(const GemmCase& c);

// GOP/s (GFLOP/s for float weights) of 2 * tokens * out * in operations, quantising of the
// activations included. The weights are random and, below 64 tokens, copied until the caches cannot
// hold them, as in a decode step; warm-up, then repeats of about 30 ms. Throws
// Error{invalid_argument} for sizes that are no matrix of the type.
Measurement measure_gemm(const GemmCase& shape, const OpContext& context, int repeats = 7);

}  // namespace strata
