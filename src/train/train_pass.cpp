#include "train/train_pass.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "train/tape_exec.h"

namespace strata {

TrainPass::TrainPass(const Transformer& model, const ParameterTable& parameters,
                     int64_t context_length, const TrainPassOptions& options,
                     const OpContext& context)
    : model_(model),
      parameters_(parameters),
      context_length_(context_length),
      options_(options),
      context_(context) {
  for (const BlockConfig& block : model.block_configs) {
    const AttentionConfig& a = block.attention;
    if (a.rope != nullptr && ropes_.find(a.rope) == ropes_.end())
      ropes_.emplace(a.rope, std::make_unique<RopeTable>(*a.rope, context_length));
    if (std::none_of(visible_.begin(), visible_.end(),
                     [&](const Visible& v) { return v.window == a.window; }))
      visible_.push_back({a.window, {}, {}});
  }
}

const TrainPass::Program& TrainPass::program(int64_t rows, bool backward) {
  std::unique_ptr<Program>& p = programs_[{rows, backward}];
  if (p != nullptr) return *p;
  std::vector<int32_t> numbers(static_cast<size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Batch batch{numbers, numbers, {}};
  TapeExec trace(parameters_);
  if (options_.reading)
    options_.reading(trace, batch);
  else
    forward_logits(trace, model_, forward_hidden(trace, model_, batch), numbers);
  auto made = std::make_unique<Program>();
  made->tape = trace.take();
  made->plan = plan_tape(
      made->tape,
      {.backward = backward, .dropout = options_.dropout > 0, .recompute = options_.recompute});
  p = std::move(made);
  return *p;
}

int64_t TrainPass::activation_bytes(int64_t rows, bool backward) {
  return program(rows, backward).plan.floats * static_cast<int64_t>(sizeof(float));
}

CrossEntropyLoss TrainPass::forward_backward(const PassInput& input) { return run(input, true); }

CrossEntropyLoss TrainPass::forward(const PassInput& input) { return run(input, false); }

void TrainPass::prepare(const Program& program, const Batch& batch) {
  const int64_t rows = batch.size();
  const size_t bytes = static_cast<size_t>(program.plan.floats) * sizeof(float);
  if (memory_.size() < bytes) {
    memory_ = AlignedBuffer();
    memory_ = AlignedBuffer(bytes, HugePages::advise);
  }
  sequences_.clear();
  int64_t named = 0;
  for (const SequenceRows& s : batch.sequences) {
    if (s.first_row != named || s.first_position != 0)
      fail(ErrorCode::invalid_argument,
           "train: a sequence begins at row {} and position {}, wanted row {} and position 0",
           s.first_row, s.first_position, named);
    sequences_.push_back({s.first_row, s.rows, s.first_row, s.rows});
    named += s.rows;
  }
  if (named != rows)
    fail(ErrorCode::invalid_argument, "train: the sequences have {} rows, the batch {}", named,
         rows);
  for (Visible& v : visible_) {
    v.begin.resize(static_cast<size_t>(rows));
    v.end.resize(static_cast<size_t>(rows));
    attention_ranges(sequences_, AttentionMask::causal, v.window, v.begin.data(), v.end.data());
  }
  if (batch.positions.empty()) return;
  const int32_t last = *std::max_element(batch.positions.begin(), batch.positions.end());
  for (const auto& [rope, table] : ropes_) table->fill_to(last);
}

CrossEntropyLoss TrainPass::run(const PassInput& input, bool backward) {
  const Program& p = program(input.batch.size(), backward);
  prepare(p, input.batch);
  program_ = &p;
  input_ = &input;
  backward_ = backward;
  dropout_ = backward ? options_.dropout : 0;
  loss_ = {};
  matches_.assign(static_cast<size_t>(p.tape.matches), {});
  if (input.matched.size() != matches_.size())
    fail(ErrorCode::invalid_argument, "train: matched has {} matrices, the pass {} losses of them",
         input.matched.size(), matches_.size());
  for (const TapeStep& s : p.plan.steps)
    s.phase == TapePhase::forward ? forward_step(s) : backward_step(s);
  return loss_;
}

AttentionVisibility TrainPass::visible(int window) const {
  const auto v = std::find_if(visible_.begin(), visible_.end(),
                              [&](const Visible& other) { return other.window == window; });
  return {sequences_, v->begin.data(), v->end.data()};
}

RopeAngles TrainPass::angles(const Rope& rope) const {
  const RopeTable& table = *ropes_.at(&rope);
  const bool pairs = rope.layout == Rope::Layout::pairs;
  return {pairs ? RopeLayout::pairs : RopeLayout::halves,
          table.cosines(0),
          table.sines(0),
          table.cosines(1) - table.cosines(0),
          context_length_,
          table.size()};
}

DropoutMask TrainPass::mask(const TapeEntry& e) const {
  return {e.drops ? dropout_ : 0, options_.seed, input_->step, e.dropout_place};
}

const TapeEntry& TrainPass::entry(const TapeStep& s) const {
  return program_->tape.entries[static_cast<size_t>(s.entry)];
}

Tensor TrainPass::tensor(int32_t buffer, int64_t rows, int64_t columns) const {
  Tensor t{DType::f32, rows, columns, columns, nullptr, -1};
  if (buffer >= 0)
    t.data = memory_.as<float>() + program_->plan.offsets[static_cast<size_t>(buffer)];
  return t;
}

Tensor TrainPass::value_in(const TapeStep& s, size_t i) const {
  const TapeValue& v = program_->tape.values[static_cast<size_t>(entry(s).in[i])];
  return tensor(s.in[i], v.rows, v.columns);
}

Tensor TrainPass::value_out(const TapeStep& s) const {
  const TapeValue& v = program_->tape.values[static_cast<size_t>(entry(s).out)];
  return tensor(s.out, v.rows, v.columns);
}

Tensor TrainPass::gradient_in(const TapeStep& s, size_t i) const {
  const TapeValue& v = program_->tape.values[static_cast<size_t>(entry(s).in[i])];
  return tensor(s.d_in[i], v.rows, v.columns);
}

Tensor TrainPass::gradient_out(const TapeStep& s) const {
  const TapeValue& v = program_->tape.values[static_cast<size_t>(entry(s).out)];
  return tensor(s.d_out, v.rows, v.columns);
}

AttentionSaved TrainPass::saved(const TapeStep& s) const {
  const int heads = entry(s).attention->heads;
  const int64_t rows = program_->tape.rows;
  const Tensor t = tensor(s.saved, int64_t{2} * heads, rows);
  return {t.row<float>(0), t.row<float>(heads), rows};
}

}  // namespace strata
