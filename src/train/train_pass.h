#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "exec/rope_table.h"
#include "model/transformer.h"
#include "ops/context.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/matching_loss.h"
#include "ops/rope.h"
#include "ops/train_attention.h"
#include "ops/workspace.h"
#include "train/parameters.h"
#include "train/tape_plan.h"

namespace strata {

class TapeExec;

struct TrainPassOptions {
  float dropout = 0;  // probability; of forward_backward only
  uint64_t seed = 0;  // of the dropout masks
  Recompute recompute = Recompute::cheap;
  // Records another pass than the model's own (forward_hidden, forward_logits): further heads,
  // adapters, losses. Begins with ex.begin(batch) or forward_hidden; called once per number of
  // rows, with a batch that has that number and stands for all.
  std::function<void(TapeExec& ex, const Batch& batch)> reading = {};
};

// One micro-batch. Rows no sequence names are not allowed; every sequence is there from its first
// token, and positions start at 0 in each (packed examples do not see each other).
struct PassInput {
  Batch batch;
  const int32_t* targets = nullptr;  // [N]; kIgnoreTarget: not scored
  // What each token's loss is multiplied by in the gradient: 1 / all scored tokens of the window
  // (all its micro-batches), so that its cut into micro-batches does not matter.
  float factor = 1;
  float smoothing = 0;
  // What the losses of TapeExec::match compare with, in their order: f32, of their operand's shape.
  std::span<const Tensor> matched = {};
  uint32_t step = 0;  // names the dropout masks: one number per micro-batch
};

// Forward and backward passes of a model over its parameters. For each number of rows the model is
// traced and its memory planned once; a pass of a size seen before allocates nothing. Results are
// the same bits for any number of threads. Not for use by several threads at once.
class TrainPass {
 public:
  // All references outlive the pass. Throws Error{unsupported} for what TapeExec cannot train.
  TrainPass(const Transformer& model, const ParameterTable& parameters, int64_t context_length,
            const TrainPassOptions& options, const OpContext& context);

  // Adds factor * the gradient of the summed loss to the parameters' gradients.
  // Throws Error{invalid_argument} for tokens, positions or targets out of range.
  CrossEntropyLoss forward_backward(const PassInput& input);
  // The loss alone, without dropout.
  CrossEntropyLoss forward(const PassInput& input);
  // The losses of TapeExec::match in the last pass, in their order, without their shares.
  std::span<const MatchingLoss> matches() const { return matches_; }

  // Activations of a pass of that many rows, without the operations' workspaces; nothing is run.
  int64_t activation_bytes(int64_t rows, bool backward);
  // Activations and workspaces that are held now.
  size_t held_bytes() const { return memory_.size() + workspace_.held_bytes(); }

 private:
  struct Program {
    Tape tape;
    TapePlan plan;
  };
  // Of attention with one window.
  struct Visible {
    int window = 0;
    std::vector<int32_t> begin, end;
  };

  const Program& program(int64_t rows, bool backward);
  CrossEntropyLoss run(const PassInput& input, bool backward);
  void prepare(const Program& program, const Batch& batch);
  AttentionVisibility visible(int window) const;
  RopeAngles angles(const Rope& rope) const;
  DropoutMask mask(const TapeEntry& e) const;

  // A buffer as a matrix; an absent one has no data.
  Tensor tensor(int32_t buffer, int64_t rows, int64_t columns) const;
  Tensor value_in(const TapeStep& s, size_t i) const;
  Tensor value_out(const TapeStep& s) const;
  Tensor gradient_in(const TapeStep& s, size_t i) const;
  Tensor gradient_out(const TapeStep& s) const;
  AttentionSaved saved(const TapeStep& s) const;
  const TapeEntry& entry(const TapeStep& s) const;

  void forward_step(const TapeStep& s);
  void backward_step(const TapeStep& s);
  void embed_forward(const TapeStep& s);
  void embed_backward(const TapeStep& s);
  void norm_backward(const TapeStep& s);
  void linear_backward(const TapeStep& s);
  void add_backward(const TapeStep& s);
  void loss_step(const TapeStep& s);
  void match_step(const TapeStep& s);
  void part_backward(const TapeStep& s);

  const Transformer& model_;
  const ParameterTable& parameters_;
  int64_t context_length_;
  TrainPassOptions options_;
  OpContext context_;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<Program>> programs_;
  AlignedBuffer memory_;
  Workspace workspace_;
  std::vector<AttentionSequence> sequences_;
  std::vector<Visible> visible_;
  std::map<const Rope*, std::unique_ptr<RopeTable>> ropes_;

  // Of the pass that runs.
  const Program* program_ = nullptr;
  const PassInput* input_ = nullptr;
  float dropout_ = 0;
  bool backward_ = false;
  CrossEntropyLoss loss_;
  std::vector<MatchingLoss> matches_;
};

}  // namespace strata
