#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bench/attention_weights.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace strata {

// Queries, keys and values of one layer for one text, and what attention makes of them.
struct ExplainedAttention {
  std::string model;  // a name, or what the random projections are
  int layer = 0;
  // As they are shown: the queries', and the keys', the same unless attention is across texts.
  std::vector<std::string> tokens, key_tokens;
  AttentionShape shape;
  double scale = 1;
  AttentionSteps steps;
};

// Of a model's layer (negative: from the last), in double precision. Throws
// Error{invalid_argument} for a text of no tokens or more than 128, or a layer the model lacks.
ExplainedAttention explain_model_attention(const Model& model, const Tokenizer& tokenizer,
                                           const std::string& text, int layer);
// Of all layers, from one forward pass over these tokens (1 to 128).
std::vector<ExplainedAttention> explain_all_layers(const Model& model, const Tokenizer& tokenizer,
                                                   std::span<const int32_t> ids);
// Of fresh random projections of random word vectors: the mechanism without a meaning. With a text
// of keys cross-attention: its words give keys and values, all of which every query sees; else
// causal self-attention.
ExplainedAttention explain_random_attention(const std::string& text, const std::string& keys,
                                            int heads, int head_size, uint64_t seed);

// A query and the key it looks at most; itself and the first token aside in self-attention.
struct AttentionLink {
  int64_t head = 0, query = 0, key = 0;
  double weight = 0;
};
// The `count` strongest, one per query and head.
std::vector<AttentionLink> strongest_links(const ExplainedAttention& a, size_t count);

// Shapes, scores, scaling, weights and the strongest links, as text; tables of at most 12 tokens.
std::string attention_text(const ExplainedAttention& a, int64_t head);
// attention_heatmap.png (one head, with numbers), multihead_comparison.png and attention.html.
void write_attention_pictures(const ExplainedAttention& a, int64_t head,
                              const std::filesystem::path& folder);
// One PNG file with a map for each head of each layer; of more than 64 heads in all, 64 evenly
// spread ones.
void write_attention_overview(const std::vector<ExplainedAttention>& layers,
                              const std::string& title, const std::filesystem::path& file);

}  // namespace strata
