#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace strata {

// What a model's files say beside its weights.
struct ModelFiles {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template;  // source text; empty: the model has none
  GenerationDefaults defaults;
  std::vector<TokenId> generation_end_tokens;  // eos_token_id of generation_config.json
};

// Reads tokenizer, template and generation defaults of a GGUF file or a Hugging Face folder.
ModelFiles load_model_files(const Model& model);

// Every token that ends an answer: the tokenizer's own, generation_config.json's and the one the
// template writes after an assistant's turn. Ascending, without repeats.
std::vector<TokenId> find_end_tokens(const ModelFiles& files, const ChatTemplate* chat_template);

// The model's own spelling of a special token for templates; "" for kNoToken.
std::string special_text(const Tokenizer& tokenizer, TokenId id);

}  // namespace strata
