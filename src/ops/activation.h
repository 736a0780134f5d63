#pragma once

#include "ops/context.h"
#include "tensor/tensor.h"

namespace strata {

enum class ActivationKind : uint8_t { silu, gelu_tanh, gelu_erf, relu };

// y = f(x), or gated y = f(gate) up (SwiGLU, GeGLU); all [N, F]. Formulas and bounds in
// kernels/rows.h and kernels/train_rows.h. Results may be written over operands.
void activation_forward(ActivationKind kind, const Tensor& x, const Tensor& y,
                        const OpContext& context);
void gated_forward(ActivationKind kind, const Tensor& gate, const Tensor& up, const Tensor& y,
                   const OpContext& context);

// The gradients, overwritten: they need what forward read, not what it gave.
void activation_backward(ActivationKind kind, const Tensor& x, const Tensor& d_y, const Tensor& d_x,
                         const OpContext& context);
struct GatedGradients {
  Tensor d_gate, d_up;
};
void gated_backward(ActivationKind kind, const Tensor& gate, const Tensor& up, const Tensor& d_y,
                    const GatedGradients& out, const OpContext& context);

// Softmax of each row, and its gradient from the forward's result: d_x may be d_y.
void softmax_forward(const Tensor& x, const Tensor& y, const OpContext& context);
void softmax_backward(const Tensor& y, const Tensor& d_y, const Tensor& d_x,
                      const OpContext& context);

}  // namespace strata
