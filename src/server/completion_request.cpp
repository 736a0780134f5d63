#include "server/completion_request.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/utf8.h"
#include "server/api_error.h"

namespace strata::server {
namespace {

constexpr size_t kMostPrompts = 256;
constexpr int64_t kDefaultMaxTokens = 16;  // as OpenAI documents for this endpoint

bool is_id_list(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const Json& v) { return whole_number(v).has_value(); });
}

std::vector<TokenId> read_ids(const Json& list, std::string_view field, const Engine& engine) {
  const int64_t vocabulary = engine.model().config.vocabulary_size;
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    const int64_t id = whole_number(value).value_or(-1);
    if (id < 0 || id >= vocabulary)
      throw bad_field(field, fmt::format("{}: token id {} is outside the vocabulary of {} tokens",
                                         field, value.dump(), vocabulary));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Prefix and suffix in the order models are trained for: prefix, suffix, then the middle to write.
std::vector<TokenId> fill_in_the_middle(const Engine& engine, const std::vector<TokenId>& prefix,
                                        const std::string& suffix) {
  const Tokenizer& tokenizer = engine.tokenizer();
  const Tokenizer::Specials& s = tokenizer.specials();
  if (s.fim_prefix == kNoToken || s.fim_suffix == kNoToken || s.fim_middle == kNoToken)
    throw unsupported_field("suffix", "suffix: this model has no fill-in-the-middle tokens");
  const std::vector<TokenId> after = tokenizer.encode(suffix, {ControlText::as_text, false});
  std::vector<TokenId> ids;
  auto rest = prefix.begin();
  if (rest != prefix.end() && *rest == s.bos) ids.push_back(*rest++);
  ids.push_back(s.fim_prefix);
  ids.insert(ids.end(), rest, prefix.end());
  ids.push_back(s.fim_suffix);
  ids.insert(ids.end(), after.begin(), after.end());
  ids.push_back(s.fim_middle);
  return ids;
}

}  // namespace

std::vector<Prompt> read_prompts(const Json& value, std::string_view field, const Engine& engine,
                                 ControlText control, size_t most) {
  std::vector<Prompt> prompts;
  const auto add = [&](const Json& one) {
    Prompt prompt;
    if (one.is_string()) {
      prompt.text = one.get<std::string>();
      prompt.ids = engine.tokenizer().encode(prompt.text, {control, true});
    } else if (is_id_list(one)) {
      prompt.ids = read_ids(one, field, engine);
      prompt.text = replace_invalid_utf8(engine.tokenizer().decode(prompt.ids));
    } else {
      throw bad_field(
          field,
          fmt::format("{}: wanted text, token ids, or an array of either (not empty)", field));
    }
    if (prompt.ids.empty())
      throw bad_field(field,
                      fmt::format("{}: the text has no tokens; it needs at least one", field));
    prompts.push_back(std::move(prompt));
  };
  if (value.is_array() && !value.empty() && !is_id_list(value)) {
    if (value.size() > most)
      throw bad_field(field, fmt::format("{}: {} entries, at most {}", field, value.size(), most));
    for (const Json& one : value) add(one);
  } else {
    add(value);
  }
  return prompts;
}

CompletionAsk read_completion(const RequestFields& fields, const Engine& engine,
                              const Caller& caller) {
  CompletionAsk out;
  out.ask = read_generation(fields, engine, caller);
  GenerationRequest& base = out.ask.base;
  out.echo = fields.boolean("echo").value_or(false);
  if (!base.max_tokens) base.max_tokens = kDefaultMaxTokens;
  if (base.max_tokens == 0 && !out.echo)
    throw bad_field("max_tokens", "max_tokens: 0 is only of use with echo");
  if (const auto top = fields.integer("logprobs", 0, 20))
    base.top_logprobs = static_cast<int>(*top);
  base.prompt_logprobs = out.echo && base.top_logprobs >= 0;
  const bool parse = fields.boolean("parse_special").value_or(true);
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) throw bad_field("prompt", "prompt: missing");
  out.prompts = read_prompts(*prompt, "prompt", engine,
                             parse ? ControlText::parse : ControlText::as_text, kMostPrompts);
  if (const auto suffix = fields.text("suffix"))
    for (Prompt& p : out.prompts) p.ids = fill_in_the_middle(engine, p.ids, *suffix);
  return out;
}

}  // namespace strata::server
