#include "exec/plan_exec.h"

namespace strata {

void PlanExec::begin(const Batch& /*batch*/) {
  linear_flops_ = 0;
  attention_flops_ = 0;
  live_ = 0;
  peak_ = 0;
}

Tensor PlanExec::made(int64_t rows, int64_t columns) {
  Tensor t;
  t.dtype = DType::f32;
  t.rows = rows;
  t.columns = columns;
  t.stride = columns;
  live_ += rows * columns * static_cast<int64_t>(sizeof(float));
  return t;
}

Tensor PlanExec::embed(const Embedding& w, const Batch& batch) {
  return made(batch.size(), w.tokens.in);
}

Tensor PlanExec::norm(const Tensor& x, const Norm& /*w*/) { return made(x.rows, x.columns); }

Tensor PlanExec::attend(const Qkv& /*qkv*/, const AttentionConfig& c, int /*layer*/,
                        const Batch& batch) {
  const int64_t width = int64_t{c.heads} * c.head_size;
  for (int32_t position : batch.positions) {
    int64_t keys = int64_t{position} + 1;
    if (c.window > 0) keys = std::min<int64_t>(keys, c.window);
    attention_flops_ += 4 * width * keys;
  }
  return made(batch.size(), width);
}

Tensor PlanExec::linear(const Tensor& x, const Linear& w) {
  linear_flops_ += 2 * x.rows * w.weight.out * w.weight.in;
  return made(x.rows, w.weight.out);
}

Tensor PlanExec::add(const Tensor& a, const Tensor& /*b*/) { return made(a.rows, a.columns); }

Tensor PlanExec::take_rows(const Tensor& x, std::span<const int32_t> rows) {
  return made(static_cast<int64_t>(rows.size()), x.columns);
}

Tensor PlanExec::logits(const Tensor& x, const Linear& head) { return linear(x, head); }

Tensor PlanExec::rope(const Tensor& x, int /*heads*/, int /*head_size*/, const Rope& /*rope*/,
                      const Batch& /*batch*/) {
  return made(x.rows, x.columns);
}

Tensor PlanExec::act(const Tensor& x, Activation /*activation*/) { return made(x.rows, x.columns); }

Tensor PlanExec::act_mul(const Tensor& /*gate*/, const Tensor& up, Activation /*activation*/) {
  return made(up.rows, up.columns);
}

void PlanExec::observe(std::string_view name, int /*layer*/, const Tensor& t) {
  if (name != "block_out") return;
  peak_ = std::max(peak_, live_);
  live_ = t.rows * t.columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace strata
