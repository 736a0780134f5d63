#include "ops/activation.h"

#include "ops/check.h"

namespace strata {
namespace {

template <typename RowFn>
void each_row_of_exponentials(const Tensor& x, const OpContext& context, RowFn fn) {
  // An exponential costs some ten times a sum.
  each_row(x.rows, 8 * x.columns, context, fn);
}

// The member of a table that the kind names.
template <typename Kernels>
const auto& kernel_of(const Kernels& kernels, ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return kernels.silu;
    case ActivationKind::gelu_tanh:
      return kernels.gelu_tanh;
    case ActivationKind::gelu_erf:
      return kernels.gelu_erf;
    case ActivationKind::relu:
      break;
  }
  return kernels.relu;
}

}  // namespace

void activation_forward(ActivationKind kind, const Tensor& x, const Tensor& y,
                        const OpContext& context) {
  check_like("activation_forward", "y", y, x);
  const auto kernel = kernel_of(*context.kernels->rows, kind).plain;
  each_row_of_exponentials(x, context,
                           [&](int64_t r) { kernel(x.row<float>(r), x.columns, y.row<float>(r)); });
}

void gated_forward(ActivationKind kind, const Tensor& gate, const Tensor& up, const Tensor& y,
                   const OpContext& context) {
  check_like("gated_forward", "up", up, gate);
  check_like("gated_forward", "y", y, gate);
  const auto kernel = kernel_of(*context.kernels->rows, kind).gated;
  each_row_of_exponentials(gate, context, [&](int64_t r) {
    kernel(gate.row<float>(r), up.row<float>(r), gate.columns, y.row<float>(r));
  });
}

void activation_backward(ActivationKind kind, const Tensor& x, const Tensor& d_y, const Tensor& d_x,
                         const OpContext& context) {
  check_like("activation_backward", "d_y", d_y, x);
  check_like("activation_backward", "d_x", d_x, x);
  const auto kernel = kernel_of(*context.kernels->train_rows, kind).plain;
  each_row_of_exponentials(x, context, [&](int64_t r) {
    kernel(x.row<float>(r), d_y.row<float>(r), x.columns, d_x.row<float>(r));
  });
}

void gated_backward(ActivationKind kind, const Tensor& gate, const Tensor& up, const Tensor& d_y,
                    const GatedGradients& out, const OpContext& context) {
  check_like("gated_backward", "up", up, gate);
  check_like("gated_backward", "d_y", d_y, gate);
  check_like("gated_backward", "d_gate", out.d_gate, gate);
  check_like("gated_backward", "d_up", out.d_up, gate);
  const auto kernel = kernel_of(*context.kernels->train_rows, kind).gated;
  each_row_of_exponentials(gate, context, [&](int64_t r) {
    kernel(gate.row<float>(r), up.row<float>(r), d_y.row<float>(r), gate.columns,
           out.d_gate.row<float>(r), out.d_up.row<float>(r));
  });
}

void softmax_forward(const Tensor& x, const Tensor& y, const OpContext& context) {
  check_like("softmax_forward", "y", y, x);
  const auto kernel = context.kernels->rows->softmax;
  each_row_of_exponentials(x, context,
                           [&](int64_t r) { kernel(x.row<float>(r), x.columns, y.row<float>(r)); });
}

void softmax_backward(const Tensor& y, const Tensor& d_y, const Tensor& d_x,
                      const OpContext& context) {
  check_like("softmax_backward", "d_y", d_y, y);
  check_like("softmax_backward", "d_x", d_x, y);
  const auto kernel = context.kernels->train_rows->softmax_backward;
  each_row_of_exponentials(y, context, [&](int64_t r) {
    kernel(y.row<float>(r), d_y.row<float>(r), y.columns, d_x.row<float>(r));
  });
}

}  // namespace strata
