#include "cli/train_sample.h"

#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "base/utf8.h"
#include "engine/sampler.h"
#include "engine/serve_exec.h"
#include "model/transformer.h"

namespace strata::cli {

std::string sample_text(const Model& model, const Tokenizer& tokenizer,
                        const SampleOptions& options) {
  std::vector<TokenId> ids = tokenizer.encode(options.prompt, {ControlText::as_text, false});
  if (ids.empty()) ids.push_back(0);
  const ModelConfig& c = model.config;
  const auto context = static_cast<int64_t>(c.context_length);
  if (static_cast<int64_t>(ids.size()) > context - 1)
    ids.resize(static_cast<size_t>(std::max<int64_t>(context - 1, 1)));

  ServeExecOptions exec_options;
  exec_options.threads = options.threads;
  exec_options.kv_type = KvType::f32;
  exec_options.max_sequences = 1;
  // Keys and values of one sequence, and as much again for the pages' rounding.
  exec_options.kv_memory =
      static_cast<uint64_t>(16 * c.layers * c.kv_heads * c.head_size * (context + 64)) + (1 << 20);
  ServeExec exec(model, exec_options);
  SamplingParams params;
  params.temperature = options.temperature;
  params.top_k = options.top_k;
  Sampler sampler(params);
  const int32_t cache = exec.create_cache();
  std::vector<int32_t> rows = ids;
  int32_t position = 0;
  for (int64_t drawn = 0; drawn < options.tokens; ++drawn) {
    std::vector<int32_t> positions(rows.size());
    for (int32_t& p : positions) p = position++;
    const std::vector<SequenceRows> sequences = {
        {0, static_cast<int32_t>(rows.size()), positions.front(), cache}};
    const Tensor hidden = forward_hidden(exec, model.transformer, {rows, positions, sequences});
    const auto last = static_cast<int32_t>(rows.size()) - 1;
    const Tensor logits = forward_logits(exec, model.transformer, hidden, std::span(&last, 1));
    const TokenId id =
        sampler.draw({logits.row<float>(0), static_cast<size_t>(logits.columns)},
                     sampling_uniform(options.seed, static_cast<uint32_t>(drawn), 0, 0));
    sampler.record(id);
    ids.push_back(id);
    if (position >= context) break;
    rows = {id};
  }
  exec.release(cache);
  return replace_invalid_utf8(tokenizer.decode(ids));
}

}  // namespace strata::cli
