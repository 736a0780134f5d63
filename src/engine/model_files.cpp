#include "engine/model_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "io/gguf.h"
#include "text/gguf_vocabulary.h"
#include "text/load_tokenizer.h"

namespace strata {
namespace {

// Configuration files are small; a larger one is a mistake.
constexpr uintmax_t kMaxTextFile = 64u << 20;

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {};
  if (size > kMaxTextFile)
    fail(ErrorCode::data_corrupt, "{}: {} bytes, wanted at most {}", path.string(), size,
         kMaxTextFile);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

Json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  if (text.empty()) return Json();
  try {
    return parse_json(text);
  } catch (const Error& e) {
    fail(ErrorCode::data_corrupt, "{}: {}", path.string(), e.what());
  }
}

template <typename T>
std::optional<T> number_at(const Json& object, const char* key, const std::string& file) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  if (!it->is_number())
    fail(ErrorCode::data_corrupt, "{}: {}: got {}, wanted a number", file, key, it->type_name());
  return it->get<T>();
}

void read_generation_config(const std::filesystem::path& folder, ModelFiles& files) {
  const std::filesystem::path path = folder / "generation_config.json";
  const Json config = read_json_file(path);
  if (!config.is_object()) return;
  const std::string name = path.string();
  // With do_sample or without: transformers decodes greedily where it is not set, but a request
  // without a temperature expects sampling, and the model's own settings for it.
  files.defaults.temperature = number_at<double>(config, "temperature", name);
  files.defaults.top_p = number_at<double>(config, "top_p", name);
  files.defaults.min_p = number_at<double>(config, "min_p", name);
  files.defaults.repetition_penalty = number_at<double>(config, "repetition_penalty", name);
  files.defaults.top_k = number_at<int32_t>(config, "top_k", name);
  const auto end = config.find("eos_token_id");
  if (end == config.end() || end->is_null()) return;
  for (const Json& id : end->is_array() ? *end : Json::array({*end})) {
    if (!id.is_number_integer())
      fail(ErrorCode::data_corrupt, "{}: eos_token_id: got {}, wanted token ids", name, id.dump());
    files.generation_end_tokens.push_back(id.get<TokenId>());
  }
}

// chat_template is a string, or a list of named ones of which "default" is meant.
std::string template_of_config(const Json& config) {
  if (!config.is_object()) return {};
  const auto it = config.find("chat_template");
  if (it == config.end()) return {};
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array())
    for (const Json& entry : *it)
      if (entry.is_object() && entry.value("name", "") == "default")
        return entry.value("template", "");
  return {};
}

}  // namespace

ModelFiles load_model_files(const Model& model) {
  ModelFiles files;
  if (const auto* gguf = dynamic_cast<const GgufStore*>(model.store.get())) {
    files.tokenizer = tokenizer_from_gguf(gguf->metadata());
    if (const auto source = gguf->metadata().find_string("tokenizer.chat_template"))
      files.chat_template = *source;
    return files;
  }
  files.tokenizer = load_tokenizer(model.path);
  read_generation_config(model.path, files);
  files.chat_template = read_text_file(model.path / "chat_template.jinja");
  if (files.chat_template.empty())
    files.chat_template = template_of_config(read_json_file(model.path / "tokenizer_config.json"));
  return files;
}

std::string special_text(const Tokenizer& tokenizer, TokenId id) {
  return id == kNoToken ? std::string() : std::string(tokenizer.piece(id));
}

namespace {

// The control token a template writes after an assistant's turn, found by rendering one.
TokenId turn_end(const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  const std::string answer = "strata turn end probe";
  ChatTemplateInputs inputs;
  inputs.messages = OrderedJson::parse(R"([{"role":"user","content":"hi"},{"role":"assistant"}])");
  inputs.messages[1]["content"] = answer;
  inputs.bos_token = special_text(tokenizer, tokenizer.specials().bos);
  inputs.eos_token = special_text(tokenizer, tokenizer.specials().eos);
  inputs.add_generation_prompt = false;
  RenderedPrompt prompt;
  try {
    prompt = chat_template.render(inputs);
  } catch (const Error& e) {
    log_debug("chat template: no turn end found: {}", e.what());
    return kNoToken;
  }
  const size_t at = prompt.text.rfind(answer);
  if (at == std::string::npos) return kNoToken;
  const std::string tail = prompt.text.substr(at + answer.size());
  const auto ids = tokenizer.encode(tail, {ControlText::parse, false});
  if (ids.empty() || tokenizer.kind(ids.front()) != TokenKind::control) return kNoToken;
  return ids.front();
}

}  // namespace

std::vector<TokenId> find_end_tokens(const ModelFiles& files, const ChatTemplate* chat_template) {
  const Tokenizer& tokenizer = *files.tokenizer;
  std::vector<TokenId> ends = tokenizer.specials().end_of_generation;
  ends.insert(ends.end(), files.generation_end_tokens.begin(), files.generation_end_tokens.end());
  if (chat_template != nullptr) ends.push_back(turn_end(tokenizer, *chat_template));
  ends.erase(
      std::remove_if(ends.begin(), ends.end(),
                     [&](TokenId id) { return id < 0 || id >= tokenizer.vocabulary_size(); }),
      ends.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace strata
