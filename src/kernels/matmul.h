#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/activation_block.h"
#include "numeric/packed.h"
#include "numeric/tensor_type.h"

namespace strata {

// Products of packed weights and rows of activations:
//   y[t * y_stride + r] = sum over k of w[r, k] * x[t, k] (+ bias[r]),   t <
//   tokens, r < rows.
//
// The order of sums of one result is fixed: columns in order, one accumulator
// (for quantised types described at matmul.inl.h), the bias last. So a result
// depends neither on `tokens` nor on how the strips are dealt out to threads.
// Every level computes the same bits, but for bf16_activations below: integer sums are exact and
// all levels fuse the same multiply-adds.
//
// Quantised types read `blocks`, float types read `floats` (f32, not rounded to
// the weights' type). Src: the interleaved int8 product of ggml's repacked
// kernels, llamafile's tinyBLAS; own code.
struct MatmulArgs {
  const std::byte* weights = nullptr;  // the first strip; strips follow each other
  int64_t strip_bytes = 0;
  int64_t in = 0;
  int64_t rows = 0;  // of y: the last strip may hold fewer than 8

  const ActivationBlock* blocks = nullptr;  // [tokens, in / 32]
  const float* floats = nullptr;            // [tokens, in]
  int64_t x_stride = 0;                     // elements of blocks or floats from token to token
  int64_t tokens = 0;

  float* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [rows] or nullptr
  bool accumulate = false;      // quantised types only: the sum is added to y
};

using MatmulFunction = void (*)(const MatmulArgs&) noexcept;

// Quantises one row of `in` floats (a multiple of 32) as
// numeric/activation_block.h says.
using QuantizeRowFunction = void (*)(const float* x, int64_t in, ActivationBlock* out) noexcept;

struct MatmulKernels {
  MatmulFunction matmul[kTensorTypeCount];  // by TensorType
  QuantizeRowFunction quantize_row;
  // The product of bf16 weights rounds the activations to bf16 (matmul_bf16.inl.h): the only one
  // whose results differ from those of other levels.
  bool bf16_activations = false;
};

}  // namespace strata
