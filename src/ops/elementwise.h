#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/workspace.h"
#include "tensor/tensor.h"

namespace strata {

// The plain arithmetic of heads and adapters: far from any limit of the machine beside the products
// they stand between, so loops rather than kernels. All f32; bits depend neither on threads nor,
// row by row, on N. Each throws Error{invalid_argument} naming the operand that does not fit.

// Whether a result replaces what y holds or is added to it.
enum class Store : uint8_t { set, add };

// y (+)= factor x, both [N, C]; y may be x.
void scale(const Tensor& x, float factor, Store store, const Tensor& y, const OpContext& context);
// y (+)= a * b, element by element, all [N, C]; y may be a or b.
void multiply(const Tensor& a, const Tensor& b, Store store, const Tensor& y,
              const OpContext& context);
// y (+)= x with column c multiplied by factors[c], x and y [N, C]; y may be x. (IA3, and the
// magnitudes of DoRA.)
void multiply_columns(const Tensor& x, const float* factors, Store store, const Tensor& y,
                      const OpContext& context);
// d_factors[c] += sum over rows of x * d_y, [N, C]: the gradient of multiply_columns by its
// factors.
void add_column_products(const Tensor& x, const Tensor& d_y, float* d_factors, Workspace& workspace,
                         const OpContext& context);

}  // namespace strata
