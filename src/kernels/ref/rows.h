#pragma once

#include <cstdint>

// The row kernels in double precision, as their definitions read: the twins of kernels/rows.h.
namespace strata::ref {

void rms_norm(const float* x, const float* weight, double epsilon, int64_t n, double* y);
// bias may be nullptr.
void layer_norm(const float* x, const float* weight, const float* bias, double epsilon, int64_t n,
                double* y);
double silu(double x);
double gelu_tanh(double x);
double gelu_erf(double x);
double relu(double x);
void softmax(const float* x, int64_t n, double* y);

}  // namespace strata::ref
