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

enum class TapeOp : uint8_t {
  embed,
  norm,
  linear,
  rope,
  activation,
  gated,
  attend,
  add,
  loss,  // cross-entropy of a head
  // What heads and adapters need besides.
  scale,
  multiply,
  multiply_columns,
  part,   // rows and columns of a value
  match,  // a loss against another matrix
};

inline bool is_loss(TapeOp op) { return op == TapeOp::loss || op == TapeOp::match; }

// Losses against the rows of another matrix (ops/matching_loss.h).
enum class MatchKind : uint8_t { squared_error, cosine, kl };
struct MatchLoss {
  MatchKind kind = MatchKind::squared_error;
  float temperature = 1;  // kl
  float share = 1;        // of this loss in what is trained on
};

// Rows [first_row, first_row + rows) and columns likewise.
struct Part {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_column = 0;
  int64_t columns = 0;
};

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
  // embed: tokens; norm, linear, multiply_columns; loss: the head
  const Parameter* weight = nullptr;
  const Parameter* bias = nullptr;  // embed: positions; norm, linear
  const Norm* norm = nullptr;
  const AttentionConfig* attention = nullptr;
  const Rope* rope = nullptr;
  int heads = 0;  // rope
  int head_size = 0;
  Activation activation = Activation::silu;
  float scale = 1;             // embed: of the token row; scale
  bool drops = true;           // add: dropout of its second operand, where the pass asks for it
  uint32_t dropout_place = 0;  // embed, attend, add: which dropout of the model
  Part part = {};
  MatchLoss match = {};
  int32_t match_index = 0;  // which of the tape's
};

struct Tape {
  int64_t rows = 0;  // N
  std::vector<TapeValue> values;
  std::vector<TapeEntry> entries;
  int32_t matches = 0;  // losses against other matrices
};

}  // namespace strata
