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
  Tensor rope(const Tensor& x, int heads, int head_size, const Rope& rope,
              const Batch& batch) override;
  Tensor act(const Tensor& x, Activation activation) override;
  Tensor act_mul(const Tensor& gate, const Tensor& up, Activation activation) override;

  // What heads and adapters need besides (TrainPassOptions::reading); all but `match` make a value.
  // They throw Error{invalid_argument} naming the operand that does not fit.
  Tensor sum(const Tensor& a, const Tensor& b);  // without dropout
  Tensor scale(const Tensor& x, float factor);
  Tensor multiply(const Tensor& a, const Tensor& b);  // element by element
  // Column c of x [N, C] by element c of the vector [1, C].
  Tensor multiply_columns(const Tensor& x, const WeightRef& factors);
  Tensor part(const Tensor& x, const Part& part);
  // A loss of x against PassInput::matched[how many were recorded before]. Where x has the batch's
  // rows, those whose target is kIgnoreTarget do not count.
  void match(const Tensor& x, const MatchLoss& loss);

 private:
  // Appends the entry with a result of [rows, columns]; -1 columns: none.
  Tensor record(TapeEntry entry, int64_t rows, int64_t columns);
  bool any_trainable(const TapeEntry& entry) const;
  // x, or a copy where a loss has it already: each loss writes the gradient of its own operand.
  Tensor operand_of_loss(const Tensor& x);

  const ParameterTable& parameters_;
  Tape tape_;
  uint32_t dropouts_ = 0;
};

}  // namespace strata
