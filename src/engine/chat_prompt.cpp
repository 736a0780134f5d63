#include "engine/chat_prompt.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "engine/model_files.h"

namespace strata {

std::vector<TokenId> chat_prompt(const Engine& engine, OrderedJson messages, OrderedJson extra,
                                 bool parse_special) {
  if (engine.chat_template() == nullptr) {
    const std::string& why = engine.chat_template_error();
    fail(ErrorCode::unsupported, "{}; give one with --chat-template FILE, or complete raw text",
         why.empty() ? "this model has no chat template"
                     : "the model's chat template cannot be used (" + why + ")");
  }
  ChatTemplateInputs inputs;
  inputs.messages = std::move(messages);
  inputs.extra = std::move(extra);
  const Tokenizer& tokenizer = engine.tokenizer();
  inputs.bos_token = special_text(tokenizer, tokenizer.specials().bos);
  inputs.eos_token = special_text(tokenizer, tokenizer.specials().eos);
  inputs.unix_time = std::time(nullptr);
  RenderedPrompt prompt = engine.chat_template()->render(inputs);
  if (parse_special)
    std::fill(prompt.from_template.begin(), prompt.from_template.end(), uint8_t{1});
  return tokenizer.encode_marked(prompt.text, prompt.from_template, true);
}

}  // namespace strata
