#include "eval/streaming.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/process.h"
#include "eval/perplexity.h"

namespace strata {
namespace {

// Rows of logits at a time: 16 of 262,144 are 16 MB.
constexpr int64_t kLogitRows = 16;

StreamingSegment segment_of(const ServeExec& exec, int64_t first, int64_t count, double sum) {
  StreamingSegment segment;
  segment.first = first;
  segment.tokens = count;
  segment.nll = sum / static_cast<double>(count);
  segment.perplexity = std::exp(segment.nll);
  segment.held_bytes = exec.kv().held_bytes();
  segment.pages = exec.kv().used_pages();
  segment.resident_bytes = resident_bytes();
  return segment;
}

}  // namespace

std::vector<StreamingSegment> streaming_perplexity(ServeExec& exec, const Model& model,
                                                   std::span<const TokenId> tokens,
                                                   const StreamingOptions& options) {
  const auto all = static_cast<int64_t>(tokens.size());
  const int64_t taken = options.tokens > 0 ? std::min(options.tokens, all) : all;
  std::vector<TokenId> text;
  text.reserve(static_cast<size_t>(taken) + 1);
  if (options.first_token) text.push_back(*options.first_token);
  for (const TokenId id : tokens.first(static_cast<size_t>(taken))) text.push_back(id);
  const auto size = static_cast<int64_t>(text.size());
  if (size < 2 || size > exec.context_length())
    fail(ErrorCode::invalid_argument,
         "streaming: a text of {} tokens; 2 to {} are possible (sinks=S,window=N has no limit: "
         "--kv-policy)",
         size, exec.context_length());

  std::vector<StreamingSegment> segments;
  int64_t first = 1, count = 0;  // of the segment at hand; token 0 follows nothing
  double sum = 0;
  std::vector<int32_t> positions, rows;
  const int32_t cache = exec.create_cache();
  for (int64_t done = 0; done < size - 1;) {
    const int64_t step = std::min(options.step_rows, size - 1 - done);
    positions.resize(static_cast<size_t>(step));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(done));
    const SequenceRows part{0, static_cast<int32_t>(step), static_cast<int32_t>(done), cache};
    const std::span<const TokenId> ids =
        std::span<const TokenId>(text).subspan(static_cast<size_t>(done), positions.size());
    const Tensor hidden =
        forward_hidden(exec, model.transformer, Batch{ids, positions, {&part, 1}});
    for (int64_t begin = 0; begin < step; begin += kLogitRows) {
      rows.resize(static_cast<size_t>(std::min(kLogitRows, step - begin)));
      std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
      const Tensor logits = forward_logits(exec, model.transformer, hidden, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t next = done + rows[i] + 1;
        const double nll = negative_log_likelihood(logits, static_cast<int64_t>(i),
                                                   text[static_cast<size_t>(next)]);
        if (!std::isfinite(nll))
          fail(ErrorCode::data_corrupt, "streaming: logits of token {} are not finite", next - 1);
        sum += nll;
        if (++count < options.segment && next + 1 < size) continue;
        segments.push_back(segment_of(exec, first, count, sum));
        first += count;
        count = 0;
        sum = 0;
      }
    }
    done += step;
    if (options.progress)
      options.progress(static_cast<double>(done) / static_cast<double>(size - 1));
  }
  exec.release(cache);
  return segments;
}

}  // namespace strata
