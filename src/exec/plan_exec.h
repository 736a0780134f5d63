#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/exec.h"

namespace strata {

// The reading of a model that computes shapes only: what a pass costs. No weight is touched and
// tensors have no data, so any size can be planned. Counts:
// - floating point operations of the matrix products, 2 per multiply and add: projections, head,
//   and q . k and the weighting of v over the keys that take part. Norms, activations and rope,
//   under 1 % of them at model sizes, are not counted.
// - bytes of f32 activations, under the rule that an executor keeps the input of a block and all
//   that the block makes until the block ends.
class PlanExec final : public Exec {
 public:
  void begin(const Batch& batch) override;
  Tensor embed(const Embedding& w, const Batch& batch) override;
  Tensor norm(const Tensor& x, const Norm& w) override;
  Tensor attend(const Qkv& qkv, const AttentionConfig& c, int layer, const Batch& batch) override;
  Tensor linear(const Tensor& x, const Linear& w) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) override;
  Tensor logits(const Tensor& x, const Linear& head) override;
  void observe(std::string_view name, int layer, const Tensor& t) override;

  int64_t linear_flops() const { return linear_flops_; }
  int64_t attention_flops() const { return attention_flops_; }
  int64_t activation_peak_bytes() const { return std::max(peak_, live_); }

 protected:
  Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
              const Batch& batch) override;
  Tensor act(const Tensor& x, Activation activation) override;
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override;

 private:
  Tensor made(int64_t rows, int64_t columns);

  int64_t linear_flops_ = 0;
  int64_t attention_flops_ = 0;
  int64_t live_ = 0;  // bytes held now
  int64_t peak_ = 0;  // the most held at the end of a block
};

}  // namespace strata
