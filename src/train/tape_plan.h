#pragma once

#include "train/tape.h"

namespace strata {

// What backward finds of forward's values; the rest it computes again, value by value, when it
// needs it.
enum class Recompute : uint8_t {
  cheap,   // norms and activations, a few percent of a step, about a third of the memory
  blocks,  // everything inside a block (activation checkpointing): one more forward pass
};

struct TapePlanOptions {
  bool backward = true;  // false: the loss only
  bool dropout = false;
  Recompute recompute = Recompute::cheap;
};

enum class TapePhase : uint8_t { forward, backward };

// One operation at its place in the order of a pass, with the buffers it reads and writes (-1:
// none). Buffers may be shared where one is no longer read when the other is written.
struct TapeStep {
  int32_t entry = 0;
  TapePhase phase = TapePhase::forward;
  std::array<int32_t, 3> in = {-1, -1, -1};
  int32_t out = -1;    // written by forward; read by the backward of attend
  int32_t saved = -1;  // attend: [2][heads][rows], max and sum
  int32_t d_out = -1;
  std::array<int32_t, 3> d_in = {-1, -1, -1};
  std::array<bool, 3> adds = {false, false, false};  // d_in is added to, not overwritten
};

struct TapePlan {
  std::vector<TapeStep> steps;
  std::vector<int64_t> offsets;  // of each buffer, in floats
  int64_t floats = 0;            // all buffers together, as they overlap in time
};

// Orders the steps of a pass and places their buffers. Frozen tensors cost nothing: a value whose
// gradient nobody asks for has none, and no step computes it.
TapePlan plan_tape(const Tape& tape, const TapePlanOptions& options);

}  // namespace strata
