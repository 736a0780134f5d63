#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/exec.h"
#include "train/parameters.h"

namespace strata {

// The operations of one forward pass, written down once by TapeExec and run for every batch of as
// many rows. Values are numbered; what each operation reads and makes is known before any runs, so
// memory is planned (tape_plan.h) and nothing is allocated while training.

enum class TapeOp : uint8_t { embed, norm, linear, rope, activation, gated, attend, add, loss };

// A matrix of f32 that an operation makes: [rows, columns], contiguous.
struct TapeValue {
  int64_t rows = 0;
  int64_t columns = 0;
  int32_t producer = -1;  // index of its entry
  int32_t consumers = 0;
  bool needs_gradient = false;
  bool block_output = false;  // ends a transformer block, or is the embedding
};

struct TapeEntry {
  TapeOp op = TapeOp::add;
  std::array<int32_t, 3> in = {-1, -1, -1};  // values; attend: q, k, v
  int32_t out = -1;                          // value; loss makes none
  const Parameter* weight = nullptr;         // embed: tokens; norm, linear; loss: the head
  const Parameter* bias = nullptr;           // embed: positions; norm, linear
  const Norm* norm = nullptr;
  const AttentionConfig* attention = nullptr;
  const Rope* rope = nullptr;
  int heads = 0;  // rope
  int head_size = 0;
  Activation activation = Activation::silu;
  float scale = 1;             // embed: of the token row
  uint32_t dropout_place = 0;  // embed, attend, add: which dropout of the model
};

struct Tape {
  int64_t rows = 0;  // N
  std::vector<TapeValue> values;
  std::vector<TapeEntry> entries;
};

}  // namespace strata
