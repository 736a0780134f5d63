#include "server/field_tables.h"

#include <vector>

namespace strata::server {
namespace {

constexpr auto kHonoured = FieldClass::honoured;
constexpr auto kNeutral = FieldClass::neutral;
constexpr auto kLabel = FieldClass::label;

constexpr std::string_view kBoolean = R"({"type":"boolean"})";
constexpr std::string_view kString = R"({"type":"string"})";
constexpr std::string_view kAny = "{}";
// One text, several, ids of one text, ids of several.
constexpr std::string_view kTexts =
    R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},{"type":"array","minItems":1,"items":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}}]})";

// What shapes the answer's tokens, the same in every generating endpoint.
constexpr std::string_view kPriority =
    R"({"anyOf":[{"type":"number","minimum":-100,"maximum":100},{"type":"string","enum":["low","normal","high"]}]})";
constexpr std::string_view kPriorityMeaning =
    "larger goes first (low: -1, high: 1); capped by the API key; waiting raises it by 1 every 5 s";
constexpr std::string_view kTimeout = R"({"type":"number","exclusiveMinimum":0,"maximum":86400})";
constexpr std::string_view kTimeoutMeaning =
    "seconds from arrival after which the request ends, also while it waits: with what there is "
    "(finish_reason timeout), or 503 if that is nothing";

constexpr FieldSpec kSamplingFields[] = {
    {"temperature", kHonoured, R"({"type":"number","minimum":0,"maximum":100,"default":1})",
     "0: always the best token"},
    {"top_p", kHonoured, R"({"type":"number","minimum":0,"maximum":1,"default":1})",
     "keeps the best tokens whose shares add up to this"},
    {"top_k", kHonoured, R"({"type":"integer","minimum":-1,"maximum":2147483647})",
     "keeps the k best tokens; 0 and -1: all"},
    {"seed", kHonoured,
     R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})",
     "64 bits; without one a random seed is drawn and returned in the header X-Strata-Seed"},
    {"stop", kHonoured,
     R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","items":{"type":"string","minLength":1},"maxItems":16}]})",
     "strings that end the answer, at most 16; they are not part of it"},
    {"max_tokens", kHonoured, R"({"type":"integer","minimum":0,"maximum":9223372036854775807})",
     "tokens to generate at most; clamped to the room left in the context"},
    {"priority", kHonoured, kPriority, kPriorityMeaning},
    {"kv_policy", kHonoured,
     R"({"type":"string","pattern":"^(full|(sinks=[1-9][0-9]*,)?window=[1-9][0-9]*)$"})",
     "what is kept of the text: full, window=N (the last N tokens) or sinks=S,window=N (and the "
     "first S); a server started with another --kv-policy than full takes that one alone"},
};

constexpr FieldSpec kMoreSamplingFields[] = {
    {"min_p", kHonoured, R"({"type":"number","minimum":0,"maximum":1})",
     "drops tokens less likely than this share of the best token"},
    {"typical_p", kHonoured, R"({"type":"number","minimum":0,"maximum":1,"default":1})",
     "locally typical sampling"},
    {"frequency_penalty", kHonoured, R"({"type":"number","minimum":-2,"maximum":2,"default":0})",
     "taken off per earlier occurrence among the generated tokens"},
    {"presence_penalty", kHonoured, R"({"type":"number","minimum":-2,"maximum":2,"default":0})",
     "taken off once for each token generated before"},
    {"repetition_penalty", kHonoured,
     R"({"type":"number","exclusiveMinimum":0,"maximum":100,"default":1})",
     "divides (multiplies, if negative) the logits of tokens generated before; the prompt does not "
     "count"},
    {"logit_bias", kHonoured,
     R"({"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}})",
     "token id to what is added to its logit"},
    {"ignore_eos", kHonoured, R"({"type":"boolean","default":false})",
     "end tokens do not end the answer"},
    {"n", kHonoured, R"({"type":"integer","minimum":1,"maximum":64,"default":1})",
     "answers per prompt"},
    {"stream", kHonoured, R"({"type":"boolean","default":false})", "server-sent events"},
    {"stream_options", kHonoured,
     R"({"type":"object","properties":{"include_usage":{"type":"boolean"},"continuous_usage_stats":{"type":"boolean"},"include_obfuscation":{"type":"boolean","enum":[false]}},"additionalProperties":false})",
     "only with stream"},
    {"model", kHonoured, kString, "a name of /v1/models"},
    {"timings", kHonoured, R"({"type":"boolean","default":false})",
     "adds the times of the request's phases to the answer"},
    {"timeout", kHonoured, kTimeout, kTimeoutMeaning},
    {"parse_special", kHonoured, kBoolean,
     "whether spellings of control tokens in the text become control tokens"},
    {"user", kLabel, kString, "logged"},
    {"safety_identifier", kLabel, kString, "logged"},
    {"prompt_cache_key", kLabel, kString, "logged"},
    {"metadata", kLabel, R"({"type":"object"})", "logged"},
    {"store", kNeutral, kBoolean, "nothing is stored", "[false]"},
    {"service_tier", kNeutral, kString, "there is one tier", R"(["auto","default"])"},
};

// Extensions of other servers whose clients send them; accepted where they ask nothing.
constexpr FieldSpec kForeignFields[] = {
    {"cache_prompt", kNeutral, kBoolean, "results never depend on caches", "[true,false]"},
    {"n_probs", kNeutral, kAny, "use logprobs", "[0]"},
    {"n_predict", kNeutral, kAny, "use max_tokens", "[-1]"},
    {"n_keep", kNeutral, kAny, "a prompt is never cut", "[0,-1]"},
    {"id_slot", kNeutral, kAny, "there are no slots", "[-1]"},
    {"mirostat", kNeutral, kAny, "", "[0]"},
    {"mirostat_tau", kNeutral, kAny, "", "[5]"},
    {"mirostat_eta", kNeutral, kAny, "", "[0.1]"},
    {"dynatemp_range", kNeutral, kAny, "", "[0]"},
    {"dynatemp_exponent", kNeutral, kAny, "", "[1]"},
    {"dry_multiplier", kNeutral, kAny, "", "[0]"},
    {"xtc_probability", kNeutral, kAny, "", "[0]"},
    {"repeat_penalty", kNeutral, kAny, "use repetition_penalty", "[1]"},
    {"tfs_z", kNeutral, kAny, "", "[1]"},
    {"grammar", kNeutral, kAny, "", R"([""])"},
    {"json_schema", kNeutral, kAny, "", "[{}]"},
    {"lora", kNeutral, kAny, "", "[[]]"},
    {"return_tokens", kNeutral, kAny, "", "[false]"},
    {"return_progress", kNeutral, kAny, "", "[false]"},
    {"post_sampling_probs", kNeutral, kAny, "", "[false]"},
    {"t_max_predict_ms", kNeutral, kAny, "use timeout", "[0]"},
    {"min_tokens", kNeutral, kAny, "", "[0]"},
    {"min_keep", kNeutral, kAny, "", "[0]"},
    {"use_beam_search", kNeutral, kAny, "", "[false]"},
    {"early_stopping", kNeutral, kAny, "", "[false]"},
    {"length_penalty", kNeutral, kAny, "", "[1]"},
    {"best_of", kNeutral, kAny, "", "[1]"},
    {"stop_token_ids", kNeutral, kAny, "", "[[]]"},
    {"bad_words", kNeutral, kAny, "", "[[]]"},
    {"include_stop_str_in_output", kNeutral, kAny, "", "[false]"},
    {"skip_special_tokens", kNeutral, kAny, "", "[true]"},
    {"spaces_between_special_tokens", kNeutral, kAny, "", "[true]"},
    {"add_generation_prompt", kNeutral, kAny, "", "[true]"},
    {"continue_final_message", kNeutral, kAny, "", "[false]"},
    {"add_special_tokens", kNeutral, kAny, "", "[]"},
    {"truncate_prompt_tokens", kNeutral, kAny, "a prompt is never cut", "[]"},
    {"prompt_logprobs", kNeutral, kAny, "use echo with logprobs", "[0]"},
    {"allowed_token_ids", kNeutral, kAny, "", "[]"},
    {"return_token_ids", kNeutral, kAny, "", "[false]"},
    {"return_tokens_as_token_ids", kNeutral, kAny, "", "[false]"},
    {"guided_json", kNeutral, kAny, "", "[]"},
    {"guided_regex", kNeutral, kAny, "", "[]"},
    {"guided_choice", kNeutral, kAny, "", "[]"},
    {"guided_grammar", kNeutral, kAny, "", "[]"},
    {"guided_decoding_backend", kNeutral, kAny, "", "[]"},
    {"guided_whitespace_pattern", kNeutral, kAny, "", "[]"},
    {"structured_outputs", kNeutral, kAny, "", "[]"},
    {"documents", kNeutral, kAny, "", "[[]]"},
};

constexpr FieldSpec kChatOnlyFields[] = {
    {"messages", kHonoured,
     R"({"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/Message"}})",
     "the conversation"},
    {"max_completion_tokens", kHonoured,
     R"({"type":"integer","minimum":1,"maximum":9223372036854775807})",
     "another name of max_tokens; both only with one value"},
    {"logprobs", kHonoured, R"({"type":"boolean","default":false})",
     "log probabilities of the unmodified distribution"},
    {"top_logprobs", kHonoured, R"({"type":"integer","minimum":0,"maximum":20})",
     "only with logprobs"},
    {"chat_template_kwargs", kHonoured, R"({"type":"object"})",
     "variables for the template; each must be read by it"},
    {"reasoning_effort", kHonoured, kString,
     "a variable of the template, refused where it reads none"},
    {"tools", kHonoured, R"({"type":"array","maxItems":0})", "not supported yet: empty"},
    {"tool_choice", kHonoured, R"({"type":"string","enum":["none","auto"]})", ""},
    {"parallel_tool_calls", kHonoured, kBoolean, "without tools it asks nothing"},
    {"response_format", kHonoured,
     R"({"type":"object","properties":{"type":{"type":"string","enum":["text"]}},"required":["type"]})",
     "text; JSON is not supported yet"},
    {"modalities", kNeutral, R"({"type":"array","items":{"type":"string"}})", "", R"([["text"]])"},
    {"verbosity", kNeutral, kAny, "", "[]"},
    {"prediction", kNeutral, kAny, "", "[]"},
    {"audio", kNeutral, kAny, "", "[]"},
    {"web_search_options", kNeutral, kAny, "", "[]"},
    {"functions", kNeutral, kAny, "the old form of tools", "[[]]"},
    {"function_call", kNeutral, kAny, "the old form of tool_choice", R"(["none"])"},
    {"echo", kNeutral, kAny, "", "[false]"},
};

constexpr FieldSpec kCompletionOnlyFields[] = {
    {"prompt", kHonoured, kTexts, "text, token ids, or several of either (at most 256)"},
    {"suffix", kHonoured, kString, "text after the gap, for models with fill-in-the-middle tokens"},
    {"logprobs", kHonoured, R"({"type":"integer","minimum":0,"maximum":20})",
     "log probabilities of the chosen and of so many best tokens"},
    {"echo", kHonoured, R"({"type":"boolean","default":false})",
     "the answer begins with the prompt"},
};

constexpr FieldSpec kEmbeddingFields[] = {
    {"model", kHonoured, kString, "a name of /v1/models"},
    {"input", kHonoured, kTexts, "text, token ids, or several of either (at most 2,048)"},
    {"encoding_format", kHonoured,
     R"({"type":"string","enum":["float","base64"],"default":"float"})",
     "base64: little-endian f32"},
    {"dimensions", kHonoured, R"({"type":"integer","minimum":1})", "the model's own size only"},
    {"priority", kHonoured, kPriority, kPriorityMeaning},
    {"timeout", kHonoured, kTimeout, kTimeoutMeaning},
    {"user", kLabel, kString, "logged"},
};

constexpr FieldSpec kGenerateFields[] = {
    {"prompt", kHonoured, R"({"type":"string","minLength":1})", "raw text"},
    {"model", kHonoured, kString, "a name of /v1/models; the first one if absent"},
};

constexpr FieldSpec kGenerateBatchFields[] = {
    {"requests", kHonoured,
     R"({"type":"array","minItems":1,"maxItems":256,"items":{"type":"object"}})",
     "bodies of /generate (GenerateRequest); a refused one has its error in its place"},
};

constexpr FieldSpec kTokenizeFields[] = {
    {"text", kHonoured, kString, "what to encode"},
    {"special", kHonoured, R"({"type":"boolean","default":false})",
     "spellings of control tokens become control tokens"},
    {"model", kHonoured, kString, "a name of /v1/models; the first one if absent"},
};

constexpr FieldSpec kDetokenizeFields[] = {
    {"ids", kHonoured, R"({"type":"array","items":{"type":"integer","minimum":0}})", "token ids"},
    {"model", kHonoured, kString, "a name of /v1/models; the first one if absent"},
};

constexpr std::string_view kModelName =
    R"({"type":"string","minLength":1,"maxLength":128,"pattern":"^[!#-\\[\\]-~]+$"})";

constexpr FieldSpec kAdminLoadFields[] = {
    {"name", kHonoured, kModelName, "under which it will be served"},
    {"path", kHonoured, R"({"type":"string","minLength":1})",
     "a name of the catalogue, or a .gguf file or folder below the server's --model-root"},
};

constexpr FieldSpec kAdminUnloadFields[] = {
    {"name", kHonoured, kModelName, "of the model"},
};

constexpr FieldSpec kMessageFields[] = {
    {"role", kHonoured, R"({"type":"string","minLength":1})",
     "system, developer, user, assistant or tool"},
    {"content", kHonoured,
     R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object","properties":{"type":{"type":"string","enum":["text"]},"text":{"type":"string"}},"required":["type","text"]}}]})",
     "text, text parts (joined with nothing), or null from the assistant"},
    {"name", kHonoured, kString, "for templates that read it"},
    {"tool_calls", kHonoured, R"({"type":"array","items":{"type":"object"}})",
     "for templates that read it"},
    {"tool_call_id", kHonoured, kString, "for templates that read it"},
    {"reasoning_content", kHonoured, kString, "for templates that read it"},
    {"reasoning", kHonoured, kString, "for templates that read it"},
    {"refusal", kLabel, kAny, ""},
    {"annotations", kLabel, kAny, ""},
    {"audio", kNeutral, kAny, "", "[{}]"},
    {"function_call", kNeutral, kAny, "", "[{}]"},
    {"parsed", kLabel, kAny, ""},
};

constexpr FieldSpec kStreamOptionFields[] = {
    {"include_usage", kHonoured, kBoolean, "one more chunk with the usage"},
    {"continuous_usage_stats", kHonoured, kBoolean, "usage in every chunk"},
    {"include_obfuscation", kNeutral, kBoolean, "", "[false]"},
};

std::vector<FieldSpec> joined(std::initializer_list<std::span<const FieldSpec>> tables) {
  std::vector<FieldSpec> all;
  for (const auto& table : tables) {
    for (const FieldSpec& spec : table) {
      bool known = false;
      for (const FieldSpec& earlier : all) known = known || earlier.name == spec.name;
      if (!known) all.push_back(spec);
    }
  }
  return all;
}

}  // namespace

// An earlier table wins where two name the same field (echo is honoured on completions).
std::span<const FieldSpec> chat_fields() {
  static const std::vector<FieldSpec> table =
      joined({kChatOnlyFields, kSamplingFields, kMoreSamplingFields, kForeignFields});
  return table;
}

std::span<const FieldSpec> completion_fields() {
  static const std::vector<FieldSpec> table =
      joined({kCompletionOnlyFields, kSamplingFields, kMoreSamplingFields, kForeignFields});
  return table;
}

std::span<const FieldSpec> generate_fields() {
  static const std::vector<FieldSpec> table = joined({kGenerateFields, kSamplingFields});
  return table;
}

std::span<const FieldSpec> embedding_fields() { return kEmbeddingFields; }
std::span<const FieldSpec> generate_batch_fields() { return kGenerateBatchFields; }
std::span<const FieldSpec> tokenize_fields() { return kTokenizeFields; }
std::span<const FieldSpec> detokenize_fields() { return kDetokenizeFields; }
std::span<const FieldSpec> admin_load_fields() { return kAdminLoadFields; }
std::span<const FieldSpec> admin_unload_fields() { return kAdminUnloadFields; }
std::span<const FieldSpec> message_fields() { return kMessageFields; }
std::span<const FieldSpec> stream_option_fields() { return kStreamOptionFields; }

}  // namespace strata::server
