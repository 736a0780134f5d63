#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "engine/serve_exec.h"
#include "model/transformer.h"

namespace strata {

// Options of an executor for random models.
inline ServeExecOptions small(int threads, KvType type = KvType::f16) {
  ServeExecOptions o;
  o.threads = threads;
  o.kv_memory = 64 << 20;
  o.kv_type = type;
  o.step_rows = 256;
  return o;
}

// A sequence that is fed to an executor, and what it gave.
struct FedSequence {
  std::vector<int32_t> tokens;
  std::vector<float> logits = {};  // [T, V], of every position so far
  int32_t cache = -1;
  int64_t done = 0;
};

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary)));
  return tokens;
}

// One pass over the next rows[i] tokens of each sequence.
inline void pass(ServeExec& ex, const Model& model, const std::vector<FedSequence*>& sequences,
                 const std::vector<int64_t>& rows) {
  std::vector<int32_t> tokens, positions;
  std::vector<SequenceRows> parts;
  for (size_t i = 0; i < sequences.size(); ++i) {
    FedSequence& s = *sequences[i];
    parts.push_back({static_cast<int32_t>(tokens.size()), static_cast<int32_t>(rows[i]),
                     static_cast<int32_t>(s.done), s.cache});
    for (int64_t r = 0; r < rows[i]; ++r) {
      tokens.push_back(s.tokens[static_cast<size_t>(s.done + r)]);
      positions.push_back(static_cast<int32_t>(s.done + r));
    }
  }
  const Batch batch{tokens, positions, parts};
  const Tensor hidden = forward_hidden(ex, model.transformer, batch);
  std::vector<int32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), 0);
  const Tensor logits = forward_logits(ex, model.transformer, hidden, all);
  for (size_t i = 0; i < sequences.size(); ++i) {
    FedSequence& s = *sequences[i];
    for (int64_t r = 0; r < rows[i]; ++r) {
      const float* row = logits.row<float>(parts[i].first_row + r);
      s.logits.insert(s.logits.end(), row, row + logits.columns);
    }
    s.done += rows[i];
  }
}

// Logits of a sequence on its own, fed in pieces (the last size repeated).
inline std::vector<float> alone(ServeExec& ex, const Model& model,
                                const std::vector<int32_t>& tokens,
                                const std::vector<int64_t>& cuts, const KvPolicy& policy = {}) {
  FedSequence s{tokens};
  s.cache = ex.create_cache(policy);
  const auto length = static_cast<int64_t>(tokens.size());
  for (size_t i = 0; s.done < length; ++i)
    pass(ex, model, {&s}, {std::min(cuts[std::min(i, cuts.size() - 1)], length - s.done)});
  ex.release(s.cache);
  return s.logits;
}

}  // namespace strata
