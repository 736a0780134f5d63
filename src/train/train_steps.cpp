// What each operation of a tape does, forward and backward.
#include <algorithm>

#include "base/error.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/residual.h"
#include "ops/rope.h"
#include "train/train_pass.h"

namespace strata {
namespace {

ActivationKind kind_of(Activation a) {
  switch (a) {
    case Activation::silu:
      return ActivationKind::silu;
    case Activation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case Activation::gelu_erf:
      return ActivationKind::gelu_erf;
    case Activation::relu:
      return ActivationKind::relu;
  }
  return ActivationKind::silu;
}

AttentionHeads heads_of(const AttentionConfig& a, const DropoutMask& dropout) {
  return {a.heads, a.kv_heads, a.head_size, static_cast<float>(a.scale), dropout};
}

const float* values_or_null(const Parameter* p) { return p == nullptr ? nullptr : p->value; }
float* gradients_or_null(const Parameter* p) { return p == nullptr ? nullptr : p->gradient; }

// Rows in groups of `columns`: a norm over each head.
Tensor grouped(Tensor t, int64_t columns) {
  t.rows = t.rows * t.columns / columns;
  t.columns = t.stride = columns;
  return t;
}

Tensor part_of(Tensor t, const Part& part) {
  t.data = t.row<float>(part.first_row) + part.first_column;
  t.rows = part.rows;
  t.columns = part.columns;
  return t;
}

Store store(const TapeStep& s, size_t operand) { return s.adds[operand] ? Store::add : Store::set; }

NormWeights norm_weights(const TapeEntry& e) {
  return {e.weight->value, values_or_null(e.bias), static_cast<float>(e.norm->epsilon)};
}

}  // namespace

void TrainPass::forward_step(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  switch (e.op) {
    case TapeOp::embed:
      return embed_forward(s);
    case TapeOp::norm: {
      const Tensor x = grouped(value_in(s, 0), e.weight->in);
      const Tensor y = grouped(value_out(s), e.weight->in);
      if (e.norm->kind == NormKind::rms) return rms_norm_forward(x, norm_weights(e), y, context_);
      return layer_norm_forward(x, norm_weights(e), y, context_);
    }
    case TapeOp::linear:
      return gemm_nt(value_in(s, 0), e.weight->operand(), value_out(s),
                     {.bias = values_or_null(e.bias), .bf16 = e.weight->rounded != nullptr},
                     workspace_, context_);
    case TapeOp::rope:
      return strata::rope(value_in(s, 0), e.heads, e.head_size, angles(*e.rope),
                          input_->batch.positions.data(), RopeDirection::forward, value_out(s),
                          context_);
    case TapeOp::activation:
      return activation_forward(kind_of(e.activation), value_in(s, 0), value_out(s), context_);
    case TapeOp::gated:
      return gated_forward(kind_of(e.activation), value_in(s, 0), value_in(s, 1), value_out(s),
                           context_);
    case TapeOp::attend:
      return train_attention_forward(value_in(s, 0), value_in(s, 1), value_in(s, 2),
                                     heads_of(*e.attention, mask(e)), visible(e.attention->window),
                                     value_out(s), saved(s), workspace_, context_);
    case TapeOp::add:
      return residual_add(value_in(s, 0), value_in(s, 1), mask(e), value_out(s), context_);
    case TapeOp::loss:
      return loss_step(s);
    case TapeOp::scale:
      return scale(value_in(s, 0), e.scale, Store::set, value_out(s), context_);
    case TapeOp::multiply:
      return multiply(value_in(s, 0), value_in(s, 1), Store::set, value_out(s), context_);
    case TapeOp::multiply_columns:
      return multiply_columns(value_in(s, 0), e.weight->value, Store::set, value_out(s), context_);
    case TapeOp::part:
      return scale(part_of(value_in(s, 0), e.part), 1, Store::set, value_out(s), context_);
    case TapeOp::match:
      return match_step(s);
  }
}

void TrainPass::backward_step(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  // Operands of these have one consumer, whose gradient is all of theirs.
  const bool single = e.op == TapeOp::rope || e.op == TapeOp::activation || e.op == TapeOp::gated ||
                      e.op == TapeOp::attend;
  STRATA_ASSERT(!single || (!s.adds[0] && !s.adds[1] && !s.adds[2]));
  switch (e.op) {
    case TapeOp::embed:
      return embed_backward(s);
    case TapeOp::norm:
      return norm_backward(s);
    case TapeOp::linear:
      return linear_backward(s);
    case TapeOp::rope:
      return strata::rope(gradient_out(s), e.heads, e.head_size, angles(*e.rope),
                          input_->batch.positions.data(), RopeDirection::backward,
                          gradient_in(s, 0), context_);
    case TapeOp::activation:
      return activation_backward(kind_of(e.activation), value_in(s, 0), gradient_out(s),
                                 gradient_in(s, 0), context_);
    case TapeOp::gated:
      return gated_backward(kind_of(e.activation), value_in(s, 0), value_in(s, 1), gradient_out(s),
                            {gradient_in(s, 0), gradient_in(s, 1)}, context_);
    case TapeOp::attend:
      return train_attention_backward(
          value_in(s, 0), value_in(s, 1), value_in(s, 2), heads_of(*e.attention, mask(e)),
          visible(e.attention->window), value_out(s), saved(s), gradient_out(s),
          {gradient_in(s, 0), gradient_in(s, 1), gradient_in(s, 2)}, workspace_, context_);
    case TapeOp::add:
      return add_backward(s);
    case TapeOp::loss:
    case TapeOp::match:
      return;  // their forward has made the gradients
    case TapeOp::scale:
      return scale(gradient_out(s), e.scale, store(s, 0), gradient_in(s, 0), context_);
    case TapeOp::multiply:
      for (const size_t i : {size_t{0}, size_t{1}})
        if (s.d_in[i] >= 0)
          multiply(gradient_out(s), value_in(s, 1 - i), store(s, i), gradient_in(s, i), context_);
      return;
    case TapeOp::multiply_columns:
      if (e.weight->trainable())
        add_column_products(value_in(s, 0), gradient_out(s), e.weight->gradient, workspace_,
                            context_);
      if (s.d_in[0] >= 0)
        multiply_columns(gradient_out(s), e.weight->value, store(s, 0), gradient_in(s, 0),
                         context_);
      return;
    case TapeOp::part:
      return part_backward(s);
  }
}

void TrainPass::embed_forward(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  const Tensor y = value_out(s);
  embedding_gather(e.weight->operand(), input_->batch.tokens.data(), y, context_);
  if (e.scale != 1)
    for (int64_t n = 0; n < y.rows; ++n)
      for (int64_t c = 0; c < y.columns; ++c) y.row<float>(n)[c] *= e.scale;
  if (e.bias != nullptr) {
    const auto add = context_.kernels->train_rows->accumulate;
    for (int64_t n = 0; n < y.rows; ++n) {
      const int32_t position = input_->batch.positions[static_cast<size_t>(n)];
      if (position < 0 || position >= e.bias->out)
        fail(ErrorCode::invalid_argument, "train: position {} of row {} is outside the context, {}",
             position, n, e.bias->out);
      add(e.bias->value + position * e.bias->in, y.columns, y.row<float>(n));
    }
  }
  if (dropout_ > 0) dropout(y, mask(e), y, context_);
}

void TrainPass::embed_backward(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  const Tensor d_y = gradient_out(s);
  if (dropout_ > 0) dropout(d_y, mask(e), d_y, context_);
  if (e.bias != nullptr && e.bias->trainable())
    embedding_scatter_add(d_y, input_->batch.positions.data(), e.bias->gradients(), context_);
  if (!e.weight->trainable()) return;
  if (e.scale != 1)
    for (int64_t n = 0; n < d_y.rows; ++n)
      for (int64_t c = 0; c < d_y.columns; ++c) d_y.row<float>(n)[c] *= e.scale;
  embedding_scatter_add(d_y, input_->batch.tokens.data(), e.weight->gradients(), context_);
}

void TrainPass::norm_backward(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  const Tensor x = grouped(value_in(s, 0), e.weight->in);
  const Tensor d_y = grouped(gradient_out(s), e.weight->in);
  const Tensor d_x = grouped(gradient_in(s, 0), e.weight->in);
  const NormGradients out{d_x, e.weight->gradient, gradients_or_null(e.bias), s.adds[0]};
  if (e.norm->kind == NormKind::rms)
    return rms_norm_backward(x, norm_weights(e), d_y, out, workspace_, context_);
  layer_norm_backward(x, norm_weights(e), d_y, out, workspace_, context_);
}

void TrainPass::linear_backward(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  const Tensor d_y = gradient_out(s);
  const bool bf16 = e.weight->rounded != nullptr;
  if (e.weight->trainable())
    gemm_tn(d_y, value_in(s, 0), e.weight->gradients(), {.accumulate = true, .bf16 = bf16},
            workspace_, context_);
  if (float* d_bias = gradients_or_null(e.bias)) add_column_sums(d_y, d_bias, workspace_, context_);
  if (s.d_in[0] >= 0)
    gemm_nn(d_y, e.weight->operand(), gradient_in(s, 0), {.accumulate = s.adds[0], .bf16 = bf16},
            workspace_, context_);
}

void TrainPass::add_backward(const TapeStep& s) {
  const Tensor d_y = gradient_out(s);
  // The branch first: the gradient of the stream may be d_y itself.
  for (const size_t i : {size_t{1}, size_t{0}}) {
    if (s.d_in[i] < 0 || s.d_in[i] == s.d_out) continue;
    const Tensor d_x = gradient_in(s, i);
    const bool dropped = i == 1 && mask(entry(s)).probability > 0;
    STRATA_ASSERT(!dropped || !s.adds[i]);
    if (dropped) {
      dropout(d_y, mask(entry(s)), d_x, context_);
    } else {
      const auto add = context_.kernels->train_rows->accumulate;
      for (int64_t n = 0; n < d_y.rows; ++n) {
        if (!s.adds[i]) std::fill_n(d_x.row<float>(n), d_x.columns, 0.0f);
        add(d_y.row<float>(n), d_y.columns, d_x.row<float>(n));
      }
    }
  }
}

void TrainPass::loss_step(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  HeadGradients out;
  if (backward_) {
    if (s.d_in[0] >= 0) out.d_x = gradient_in(s, 0);
    if (e.weight->trainable()) out.d_w = e.weight->gradients();
  }
  const CrossEntropyLoss loss = cross_entropy_head(
      value_in(s, 0), e.weight->operand(), input_->targets,
      {.smoothing = input_->smoothing, .factor = input_->factor}, out, workspace_, context_);
  loss_.sum += loss.sum;
  loss_.tokens += loss.tokens;
}

void TrainPass::match_step(const TapeStep& s) {
  const TapeEntry& e = entry(s);
  const auto index = static_cast<size_t>(e.match_index);
  const Tensor x = value_in(s, 0), &target = input_->matched[index];
  const MatchingLossOptions options{x.rows == program_->tape.rows ? input_->targets : nullptr,
                                    input_->factor * e.match.share};
  Tensor d_x;
  if (s.d_in[0] >= 0) d_x = gradient_in(s, 0);
  MatchingLoss& loss = matches_[index];
  switch (e.match.kind) {
    case MatchKind::squared_error:
      loss = squared_error_loss(x, target, options, d_x, workspace_, context_);
      break;
    case MatchKind::cosine:
      loss = cosine_loss(x, target, options, d_x, workspace_, context_);
      break;
    case MatchKind::kl:
      loss = kl_loss(x, target, e.match.temperature, options, d_x, workspace_, context_);
      break;
  }
}

void TrainPass::part_backward(const TapeStep& s) {
  const Tensor d_x = gradient_in(s, 0);
  if (!s.adds[0])
    for (int64_t n = 0; n < d_x.rows; ++n) std::fill_n(d_x.row<float>(n), d_x.columns, 0.0f);
  scale(gradient_out(s), 1, Store::add, part_of(d_x, entry(s).part), context_);
}

}  // namespace strata
