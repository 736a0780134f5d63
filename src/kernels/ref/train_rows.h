#pragma once

#include <cstdint>

// The row kernels of training in double precision, as their definitions read: the twins of
// kernels/train_rows.h.
namespace strata::ref {

void rms_norm_backward(const float* x, const float* weight, double epsilon, const float* d_y,
                       int64_t n, double* d_x, double* d_weight);
void layer_norm_backward(const float* x, const float* weight, double epsilon, const float* d_y,
                         int64_t n, double* d_x, double* d_weight, double* d_bias);
double silu_slope(double x);
double gelu_tanh_slope(double x);
double gelu_erf_slope(double x);
double relu_slope(double x);
void softmax_backward(const float* y, const float* d_y, int64_t n, double* d_x);
// Returns the loss; gradient of it (factor 1).
double cross_entropy(const float* logits, int64_t n, int64_t target, double smoothing,
                     double* gradient);
// Likewise, of x against target.
double squared_error(const float* x, const float* target, int64_t n, double* gradient);
double cosine_distance(const float* x, const float* target, int64_t n, double* gradient);
double kl_divergence(const float* x, const float* target, int64_t n, double inverse_temperature,
                     double* gradient);

}  // namespace strata::ref
