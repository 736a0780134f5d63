#pragma once

#include "train/tape.h"

namespace strata {

// The reading of a model that writes a Tape: its tensors have shapes and numbers of values, no
// data. forward_hidden and forward_logits (model/transformer.h) run through it once per number of
// rows; `logits` becomes the loss.
//
// Dropout, where the pass asks for it, is applied to the embedding, to the weights of attention and
// to the second operand of `add` (what a branch adds to the residual stream), as GPT-2 has it.
class TapeExec final : public Exec {
 public:
  explicit TapeExec(const ParameterTable& parameters) : parameters_(parameters) {}

  Tape take() { return std::move(tape_); }

  void begin(const Batch& batch) override;
  Tensor embed(const Embedding& w, const Batch& batch) override;
  // Throws Error{unsupported} for norms that add to their weight (Gemma).
  Tensor norm(const Tensor& x, const Norm& w) override;
  Tensor attend(const Qkv& qkv, const AttentionConfig& c, int layer, const Batch& batch) override;
  Tensor linear(const Tensor& x, const Linear& w) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  // All rows in their order only: which rows count is said by the targets.
  Tensor take_rows(const Tensor& x, std::span<const int32_t> rows) override;
  Tensor logits(const Tensor& x, const Linear& head) override;
  void observe(std::string_view name, int layer, const Tensor& t) override;

 protected:
  Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
              const Batch& batch) override;
  Tensor act(const Tensor& x, Activation activation) override;
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override;

 private:
  // Appends the entry with a result of [rows, columns]; -1 columns: none.
  Tensor record(TapeEntry entry, int64_t rows, int64_t columns);
  bool any_trainable(const TapeEntry& entry) const;

  const ParameterTable& parameters_;
  Tape tape_;
  uint32_t dropouts_ = 0;
};

}  // namespace strata
