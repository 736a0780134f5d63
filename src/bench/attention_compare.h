#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/result.h"
#include "bench/standard_attention.h"
#include "ops/context.h"

namespace strata {

// Causal attention of training, flash against standard: forward and backward, at several lengths.
struct AttentionComparison {
  int heads = 8;
  int kv_heads = 8;
  int head_size = 64;
  std::vector<int64_t> lengths = {512, 1024, 2048, 4096};  // T
  int64_t memory_limit = 0;  // bytes; a method that needs more is not run at that length
};

enum class AttentionMethod : uint8_t { flash, standard };
const char* attention_method_name(AttentionMethod method);

// One method at one length.
struct AttentionRun {
  AttentionMethod method = AttentionMethod::flash;
  int64_t tokens = 0;
  bool fits = true;                                       // else: not run
  std::vector<double> forward_seconds, backward_seconds;  // one per repeat
  int64_t operand_bytes = 0;                              // q, k, v, y and their gradients
  int64_t peak_bytes = -1;                                // measured, beside the operands
  // Of flash: largest difference from standard, over outputs and gradients; NaN where standard did
  // not run and not even some rows of one head fit. Of the first KV head alone, some queries at a
  // time, where all heads did not fit.
  double difference = 0;
  int64_t compared_heads = 0;
};

struct AttentionComparisonResult {
  AttentionComparison comparison;
  std::vector<AttentionRun> runs;
  // The largest T that fits into the limit, operands included; from bytes(size) of standard, and
  // from what flash was measured to hold per token at its largest length. 0: unknown.
  int64_t largest_tokens(AttentionMethod method) const;
};

// Throws Error{invalid_argument} for sizes that do not fit together; `say` gets a line of progress,
// `check` may throw to end it.
AttentionComparisonResult compare_attention(const AttentionComparison& comparison,
                                            const OpContext& context, int repeats,
                                            const std::function<void(const std::string&)>& say = {},
                                            const std::function<void()>& check = {});

// attention_forward and attention_backward in GFLOP/s of the operations causal attention needs
// (4 and 10 Dh of each query, head and visible key); params: seconds, peak_bytes, max_difference,
// largest_tokens.
std::vector<Measurement> attention_measurements(const AttentionComparisonResult& result);

// memory_profile.png and speedup_chart.png.
void write_attention_charts(const AttentionComparisonResult& result,
                            const std::filesystem::path& folder);

}  // namespace strata
