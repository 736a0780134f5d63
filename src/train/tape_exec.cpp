#include "train/tape_exec.h"

#include "base/error.h"
#include "ops/check.h"

namespace strata {

bool TapeExec::any_trainable(const TapeEntry& e) const {
  for (const int32_t v : e.in)
    if (v >= 0 && tape_.values[static_cast<size_t>(v)].needs_gradient) return true;
  return (e.weight != nullptr && e.weight->trainable()) ||
         (e.bias != nullptr && e.bias->trainable());
}

Tensor TapeExec::record(TapeEntry entry, int64_t rows, int64_t columns) {
  const auto index = static_cast<int32_t>(tape_.entries.size());
  for (const int32_t v : entry.in)
    if (v >= 0) ++tape_.values[static_cast<size_t>(v)].consumers;
  Tensor t;
  if (columns >= 0) {
    entry.out = static_cast<int32_t>(tape_.values.size());
    tape_.values.push_back({rows, columns, index, 0, any_trainable(entry), false});
    t = {DType::f32, rows, columns, columns, nullptr, entry.out};
  }
  tape_.entries.push_back(entry);
  return t;
}

void TapeExec::begin(const Batch& batch) {
  tape_ = {};
  tape_.rows = batch.size();
  dropouts_ = 0;
}

Tensor TapeExec::embed(const Embedding& w, const Batch& batch) {
  TapeEntry e{.op = TapeOp::embed};
  e.weight = parameters_.find(w.tokens);
  e.bias = parameters_.find(w.positions);
  e.scale = static_cast<float>(w.scale);
  e.dropout_place = dropouts_++;
  const Tensor t = record(e, batch.size(), w.tokens.in);
  tape_.values.back().block_output = true;
  return t;
}

Tensor TapeExec::norm(const Tensor& x, const Norm& w) {
  if (w.weight_offset != 0)
    fail(ErrorCode::unsupported, "train: norm '{}' adds {} to its weight, wanted 0", w.weight.name,
         w.weight_offset);
  TapeEntry e{.op = TapeOp::norm, .in = {x.id, -1, -1}};
  e.weight = parameters_.find(w.weight);
  e.bias = parameters_.find(w.bias);
  e.norm = &w;
  return record(e, x.rows, x.columns);
}

Tensor TapeExec::attend(const Qkv& qkv, const AttentionConfig& c, int /*layer*/,
                        const Batch& /*batch*/) {
  TapeEntry e{.op = TapeOp::attend, .in = {qkv.q.id, qkv.k.id, qkv.v.id}};
  e.attention = &c;
  e.dropout_place = dropouts_++;
  return record(e, qkv.q.rows, qkv.q.columns);
}

Tensor TapeExec::linear(const Tensor& x, const Linear& w) {
  TapeEntry e{.op = TapeOp::linear, .in = {x.id, -1, -1}};
  e.weight = parameters_.find(w.weight);
  e.bias = parameters_.find(w.bias);
  return record(e, x.rows, w.weight.out);
}

Tensor TapeExec::add(const Tensor& a, const Tensor& b) {
  TapeEntry e{.op = TapeOp::add, .in = {a.id, b.id, -1}};
  e.dropout_place = dropouts_++;
  return record(e, a.rows, a.columns);
}

Tensor TapeExec::take_rows(const Tensor& x, std::span<const int32_t> rows) {
  bool all = static_cast<int64_t>(rows.size()) == x.rows;
  for (size_t i = 0; all && i < rows.size(); ++i) all = rows[i] == static_cast<int32_t>(i);
  if (!all)
    fail(ErrorCode::unsupported, "train: take_rows: wanted all {} rows in order, got {} rows",
         x.rows, rows.size());
  return x;
}

Tensor TapeExec::logits(const Tensor& x, const Linear& head) {
  if (head.bias) fail(ErrorCode::unsupported, "train: the head has a bias, wanted none");
  TapeEntry e{.op = TapeOp::loss, .in = {operand_of_loss(x).id, -1, -1}};
  e.weight = parameters_.find(head.weight);
  return record(e, x.rows, -1);
}

void TapeExec::observe(std::string_view name, int /*layer*/, const Tensor& t) {
  if (name == "block_out") tape_.values[static_cast<size_t>(t.id)].block_output = true;
}

Tensor TapeExec::rope(const Tensor& x, int heads, int head_size, const Rope& rope,
                      const Batch& /*batch*/) {
  TapeEntry e{.op = TapeOp::rope, .in = {x.id, -1, -1}};
  e.rope = &rope;
  e.heads = heads;
  e.head_size = head_size;
  return record(e, x.rows, x.columns);
}

Tensor TapeExec::act(const Tensor& x, Activation activation) {
  TapeEntry e{.op = TapeOp::activation, .in = {x.id, -1, -1}};
  e.activation = activation;
  return record(e, x.rows, x.columns);
}

Tensor TapeExec::act_mul(const Tensor& gate, const Tensor& up, Activation activation) {
  TapeEntry e{.op = TapeOp::gated, .in = {gate.id, up.id, -1}};
  e.activation = activation;
  return record(e, gate.rows, gate.columns);
}

Tensor TapeExec::sum(const Tensor& a, const Tensor& b) {
  check_like("train: sum", "b", b, a);
  if (a.id == b.id) return scale(a, 2);
  return record({.op = TapeOp::add, .in = {a.id, b.id, -1}, .drops = false}, a.rows, a.columns);
}

Tensor TapeExec::scale(const Tensor& x, float factor) {
  TapeEntry e{.op = TapeOp::scale, .in = {x.id, -1, -1}};
  e.scale = factor;
  return record(e, x.rows, x.columns);
}

Tensor TapeExec::multiply(const Tensor& a, const Tensor& b) {
  check_like("train: multiply", "b", b, a);
  return record({.op = TapeOp::multiply, .in = {a.id, b.id, -1}}, a.rows, a.columns);
}

Tensor TapeExec::multiply_columns(const Tensor& x, const WeightRef& factors) {
  if (factors.out != 1 || factors.in != x.columns)
    fail(ErrorCode::invalid_argument, "train: multiply_columns: '{}' is [{}, {}], wanted [1, {}]",
         factors.name, factors.out, factors.in, x.columns);
  TapeEntry e{.op = TapeOp::multiply_columns, .in = {x.id, -1, -1}};
  e.weight = parameters_.find(factors);
  return record(e, x.rows, x.columns);
}

Tensor TapeExec::part(const Tensor& x, const Part& part) {
  const auto outside = [](int64_t first, int64_t count, int64_t all) {
    return first < 0 || count < 1 || first > all - count;
  };
  if (outside(part.first_row, part.rows, x.rows) ||
      outside(part.first_column, part.columns, x.columns))
    fail(ErrorCode::invalid_argument,
         "train: part: {} rows from {} and {} columns from {} of a matrix [{}, {}]", part.rows,
         part.first_row, part.columns, part.first_column, x.rows, x.columns);
  TapeEntry e{.op = TapeOp::part, .in = {x.id, -1, -1}};
  e.part = part;
  return record(e, part.rows, part.columns);
}

void TapeExec::match(const Tensor& x, const MatchLoss& loss) {
  TapeEntry e{.op = TapeOp::match, .in = {operand_of_loss(x).id, -1, -1}};
  e.match = loss;
  e.match_index = tape_.matches++;
  record(e, x.rows, -1);
}

Tensor TapeExec::operand_of_loss(const Tensor& x) {
  for (const TapeEntry& e : tape_.entries)
    if (is_loss(e.op) && e.in[0] == x.id) return scale(x, 1);
  return x;
}

}  // namespace strata
