#include "engine/step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "engine/logits.h"
#include "engine/weight_check.h"

namespace strata {
namespace {

// Rows whose logits are in memory at once: with 262,144 tokens 32 rows are 32 MB, and a batch of 32
// streams still reads the head once.
constexpr int64_t kLogitRows = 32;
// An answer's ids have room from its first token on; one that grows beyond this doubles it.
constexpr int64_t kReservedTokens = int64_t{1} << 16;

std::span<const float> row_of(const Tensor& logits, int64_t i) {
  return {logits.row<float>(i), static_cast<size_t>(logits.columns)};
}

// Calls use(i, logits of row i of the list) for each of the rows of `hidden` on any thread, and
// then, in order and on this one, tell(i), a part of the rows at a time.
template <typename Use, typename Tell>
void for_each_logits(ServeExec& exec, const Transformer& model, const Tensor& hidden,
                     const std::vector<int32_t>& rows, Use use, Tell tell) {
  for (size_t begin = 0; begin < rows.size(); begin += kLogitRows) {
    const size_t count = std::min(rows.size() - begin, static_cast<size_t>(kLogitRows));
    const Tensor logits =
        forward_logits(exec, model, hidden, std::span(rows).subspan(begin, count));
    exec.pool().parallel_for(logits.rows, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) use(begin + static_cast<size_t>(i), row_of(logits, i));
    });
    for (size_t i = 0; i < count; ++i) tell(begin + i);
  }
}

}  // namespace

void Step::clear() {
  parts_.clear();
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
}

void Step::add(ActiveRequest& request, Sequence& sequence, int64_t rows) {
  const auto first_row = static_cast<int32_t>(tokens_.size());
  parts_.push_back({&request, &sequence, first_row, static_cast<int32_t>(rows)});
  sequences_.push_back({first_row, static_cast<int32_t>(rows),
                        static_cast<int32_t>(sequence.length), sequence.cache});
  for (int64_t position = sequence.length; position < sequence.length + rows; ++position) {
    positions_.push_back(static_cast<int32_t>(position));
    tokens_.push_back(request.known_token(sequence, position));
  }
}

void Step::add_padding(const PaddingRows& padding) {
  sequences_.push_back({static_cast<int32_t>(tokens_.size()), static_cast<int32_t>(padding.rows),
                        static_cast<int32_t>(padding.length), padding.cache});
  for (int64_t i = 0; i < padding.rows; ++i) {
    positions_.push_back(static_cast<int32_t>(padding.length + i));
    tokens_.push_back(padding.token);
  }
}

void Step::run(ServeExec& exec) {
  const Batch batch{tokens_, positions_, sequences_};
  choose_rows();
  const Tensor hidden = forward_hidden(exec, model_->transformer, batch, wanted_);
  score_prompts(exec, hidden);
  pool_embeddings(exec, hidden);
  draw_tokens(exec, hidden);
  for (StepPart& part : parts_) {
    part.sequence->length += part.rows;
    ActiveRequest& request = *part.request;
    if (request.request.embedding && part.sequence->length == request.prompt_size())
      part.sequence->finish = FinishReason::stop;
  }
}

void Step::choose_rows() {
  wanted_.clear();
  places_.resize(tokens_.size());
  for (const StepPart& part : parts_) {
    const bool all = part.request->request.embedding || part.scores();
    for (int32_t row = part.first_row; row < part.first_row + part.rows; ++row) {
      if (!all && !(part.draws() && row + 1 == part.first_row + part.rows)) continue;
      places_[static_cast<size_t>(row)] = static_cast<int32_t>(wanted_.size());
      wanted_.push_back(row);
    }
  }
}

// Logprobs of the prompt's own tokens: row i scores token i + 1. Only the first choice does it, and
// it is the first to reach the end of the prompt.
void Step::score_prompts(ServeExec& exec, const Tensor& hidden) {
  std::vector<int32_t> rows;
  std::vector<std::pair<ActiveRequest*, TokenId>> scored;
  for (const StepPart& part : parts_) {
    if (!part.scores()) continue;
    const GenerationRequest& request = part.request->request;
    for (int32_t i = 0; i < part.rows; ++i) {
      const int64_t next = part.first_position() + i + 1;
      if (next >= part.request->prompt_size()) continue;
      rows.push_back(places_[static_cast<size_t>(int64_t{part.first_row} + i)]);
      scored.emplace_back(part.request, request.prompt[static_cast<size_t>(next)]);
    }
  }
  std::vector<TokenLogprob> scores(rows.size());
  for_each_logits(
      exec, model_->transformer, hidden, rows,
      [&](size_t i, std::span<const float> logits) {
        const auto& [request, token] = scored[i];
        scores[i] = token_logprobs(logits, token, request->request.top_logprobs);
      },
      [&](size_t i) { scored[i].first->prompt_logprobs.push_back(std::move(scores[i])); });
  for (const StepPart& part : parts_) {
    ActiveRequest& request = *part.request;
    if (part.sequence->choice != 0 || !part.ends_prompt() || request.prompt_told) continue;
    if (request.request.prompt_logprobs) {
      TokenLogprob first;
      first.id = request.request.prompt.front();
      first.logprob = std::numeric_limits<float>::quiet_NaN();
      request.prompt_logprobs.insert(request.prompt_logprobs.begin(), first);
    }
    request.sink->on_prompt(request.prompt_logprobs);
    request.prompt_logprobs = {};
    request.prompt_told = true;
  }
}

// Sum of the normed last states over the prompt: mean pooling, finished when the prompt ends.
void Step::pool_embeddings(ServeExec& exec, const Tensor& hidden) {
  for (StepPart& part : parts_) {
    if (!part.request->request.embedding) continue;
    std::vector<int32_t> rows(static_cast<size_t>(part.rows));
    std::iota(rows.begin(), rows.end(), places_[static_cast<size_t>(part.first_row)]);
    const Tensor states = exec.norm(exec.take_rows(hidden, rows), model_->transformer.output_norm);
    std::vector<double>& sum = part.request->embedding_sum;
    sum.resize(static_cast<size_t>(states.columns));
    for (int64_t r = 0; r < states.rows; ++r)
      for (int64_t c = 0; c < states.columns; ++c)
        sum[static_cast<size_t>(c)] += static_cast<double>(states.row<float>(r)[c]);
    if (!part.ends_prompt()) continue;
    double squares = 0;
    for (double v : sum) squares += v * v;
    // The mean and the sum have the same direction; a unit vector needs no division by the length.
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::vector<float> unit(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) unit[i] = static_cast<float>(sum[i] * scale);
    part.request->sink->on_embedding(unit);
  }
}

void Step::draw_tokens(ServeExec& exec, const Tensor& hidden) {
  drawing_.clear();
  rows_.clear();
  for (StepPart& part : parts_) {
    if (!part.draws()) continue;
    rows_.push_back(places_[static_cast<size_t>(part.first_row + part.rows - 1)]);
    drawing_.push_back({&part});
  }
  for_each_logits(
      exec, model_->transformer, hidden, rows_,
      [&](size_t i, std::span<const float> logits) { draw_token(drawing_[i], logits); },
      [&](size_t i) { tell_token(drawing_[i]); });
}

// A draw depends on its own sequence alone, so that threads may share the rows.
void Step::draw_token(Drawing& drawing, std::span<const float> logits) {
  const ActiveRequest& request = *drawing.part->request;
  Sequence& sequence = *drawing.part->sequence;
  drawing.broken = find_broken_logit(logits);
  if (drawing.broken >= 0 || request.max_tokens == 0) return;
  const SamplingParams& sampling = sequence.sampler.params();
  const double uniform =
      sampling_uniform(sampling.seed, static_cast<uint32_t>(sequence.generated.size()),
                       request.request.prompt_index, static_cast<uint32_t>(sequence.choice));
  drawing.id = sequence.sampler.draw(logits, uniform);
  const int top = request.request.top_logprobs;
  if (top >= 0) drawing.logprob = token_logprobs(logits, drawing.id, top);
}

void Step::tell_token(Drawing& drawing) {
  ActiveRequest& request = *drawing.part->request;
  Sequence& sequence = *drawing.part->sequence;
  TokenEvent& event = event_;
  event.clear(sequence.choice);
  if (drawing.broken >= 0) {
    if (!weights_checked_) broken_weight_ = find_broken_weight(*model_);
    weights_checked_ = true;
    log_error("request {}: logit {} of token {} is not a number; {}", request.id, drawing.broken,
              sequence.generated.size(), broken_weight_.value_or("every weight is finite"));
    sequence.finish = event.finish = FinishReason::error;
    event.error = broken_weight_ ? "the model's output is not a number (its weights are damaged)"
                                 : "the model's output is not a number";
    request.sink->on_token(event);
    return;
  }
  if (request.max_tokens == 0) {
    sequence.finish = event.finish = FinishReason::length;
    request.sink->on_token(event);
    return;
  }
  const TokenId id = drawing.id;
  sequence.sampler.record(id);
  if (sequence.generated.empty())
    sequence.generated.reserve(static_cast<size_t>(std::min(request.max_tokens, kReservedTokens)));
  sequence.generated.push_back(id);
  event.ids.push_back(id);
  if (request.request.top_logprobs >= 0) event.logprobs.push_back(std::move(drawing.logprob));

  const bool ends = !sequence.sampler.params().ignore_eos &&
                    std::find(end_tokens_->begin(), end_tokens_->end(), id) != end_tokens_->end();
  if (!ends) event.text = sequence.text.push(id);
  event.finish = ends ? FinishReason::stop : finish_after(request, sequence);
  if (event.finish != FinishReason::none) event.text += sequence.text.finish();
  sequence.finish = event.finish;
  ++request.summary.completion_tokens;
  request.sink->on_token(event);
}

FinishReason Step::finish_after(const ActiveRequest& request, const Sequence& sequence) const {
  if (sequence.text.stopped()) return FinishReason::stop;
  const auto generated = static_cast<int64_t>(sequence.generated.size());
  // The newest token has no place in the cache yet; it would need one to go on.
  if (generated >= request.max_tokens || request.prompt_size() + generated >= context_length_)
    return FinishReason::length;
  return FinishReason::none;
}

}  // namespace strata
