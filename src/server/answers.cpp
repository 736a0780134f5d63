#include "server/answers.h"

#include <fmt/core.h>

#include <cmath>

#include "base/utf8.h"

namespace strata::server {
namespace {

OrderedJson bytes_json(const std::string& bytes) {
  OrderedJson out = OrderedJson::array();
  for (char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}

std::string readable(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string bytes_of(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.token_bytes(id, false, true);
}

OrderedJson chat_logprobs(const Tokenizer& tokenizer, const std::vector<TokenLogprob>& logprobs) {
  const auto entry = [&](TokenId id, float logprob) {
    const std::string bytes = bytes_of(tokenizer, id);
    OrderedJson e;
    e["token"] = readable(bytes);
    e["logprob"] = logprob;
    e["bytes"] = bytes_json(bytes);
    return e;
  };
  OrderedJson content = OrderedJson::array();
  for (const TokenLogprob& l : logprobs) {
    OrderedJson e = entry(l.id, l.logprob);
    e["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : l.top) e["top_logprobs"].push_back(entry(id, logprob));
    content.push_back(std::move(e));
  }
  OrderedJson out;
  out["content"] = std::move(content);
  out["refusal"] = nullptr;
  return out;
}

// Offsets are those of the tokens' own text; a token inside a character has the offset of its
// beginning.
OrderedJson completion_logprobs(const Tokenizer& tokenizer,
                                const std::vector<TokenLogprob>& logprobs, int64_t first_offset) {
  OrderedJson tokens = OrderedJson::array(), values = OrderedJson::array(),
              tops = OrderedJson::array(), offsets = OrderedJson::array();
  std::string text;
  for (const TokenLogprob& l : logprobs) {
    const std::string bytes = bytes_of(tokenizer, l.id);
    tokens.push_back(readable(bytes));
    offsets.push_back(first_offset + count_code_points(std::string_view(text).substr(
                                         0, complete_utf8_prefix(text))));
    text += bytes;
    if (std::isnan(l.logprob)) {  // the first token of a prompt follows nothing
      values.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    values.push_back(l.logprob);
    // Two tokens can have one spelling: the likelier one keeps it. The chosen token is always
    // there.
    OrderedJson top = OrderedJson::object();
    for (const auto& [id, logprob] : l.top) {
      const std::string key = token_text(tokenizer, id);
      if (!top.contains(key)) top[key] = logprob;
    }
    if (!l.top.empty() && !top.contains(readable(bytes))) top[readable(bytes)] = l.logprob;
    tops.push_back(l.top.empty() ? OrderedJson(nullptr) : std::move(top));
  }
  OrderedJson out;
  out["tokens"] = std::move(tokens);
  out["token_logprobs"] = std::move(values);
  out["top_logprobs"] = std::move(tops);
  out["text_offset"] = std::move(offsets);
  return out;
}

OrderedJson head_json(const AnswerHead& head, const char* object) {
  OrderedJson out;
  out["id"] = head.id;
  out["object"] = object;
  out["created"] = head.created;
  out["model"] = head.model;
  out["system_fingerprint"] = head.fingerprint;
  return out;
}

const char* chunk_object(const AnswerHead& head) {
  return head.form == AnswerForm::chat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return readable(bytes_of(tokenizer, id));
}

OrderedJson usage_json(const Usage& usage) {
  OrderedJson out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  out["completion_tokens_details"]["reasoning_tokens"] = 0;
  return out;
}

OrderedJson timings_json(const RequestTimings& t, const Usage& usage) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  OrderedJson out;
  out["queue_ms"] = t.queue_seconds * 1e3;
  out["prompt_ms"] = t.prompt_seconds * 1e3;
  out["generation_ms"] = t.generation_seconds * 1e3;
  out["time_to_first_token_ms"] = t.ttft_seconds * 1e3;
  out["prompt_tokens_per_second"] = rate(usage.prompt_tokens, t.prompt_seconds);
  out["generated_tokens_per_second"] = rate(usage.completion_tokens, t.generation_seconds);
  return out;
}

std::string finish_reason_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::timeout:
      return "timeout";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
    case FinishReason::none:
      break;
  }
  return "";
}

OrderedJson logprobs_json(AnswerForm form, const Tokenizer& tokenizer,
                          const std::vector<TokenLogprob>& logprobs, int64_t first_offset) {
  return form == AnswerForm::chat ? chat_logprobs(tokenizer, logprobs)
                                  : completion_logprobs(tokenizer, logprobs, first_offset);
}

OrderedJson whole_answer(const AnswerHead& head, const Tokenizer& tokenizer,
                         const std::vector<ChoiceResult>& choices, bool with_logprobs,
                         const Usage& usage) {
  const bool chat = head.form == AnswerForm::chat;
  OrderedJson out = head_json(head, chat ? "chat.completion" : "text_completion");
  out["choices"] = OrderedJson::array();
  for (const ChoiceResult& choice : choices) {
    OrderedJson c;
    c["index"] = choice.index;
    if (chat) {
      c["message"]["role"] = "assistant";
      c["message"]["content"] = choice.text;
      c["message"]["refusal"] = nullptr;
    } else {
      c["text"] = choice.text;
    }
    c["logprobs"] = with_logprobs
                        ? logprobs_json(head.form, tokenizer, choice.logprobs, choice.first_offset)
                        : OrderedJson(nullptr);
    c["finish_reason"] = finish_reason_text(choice.finish);
    out["choices"].push_back(std::move(c));
  }
  out["usage"] = usage_json(usage);
  return out;
}

OrderedJson delta_chunk(const AnswerHead& head, const Tokenizer& tokenizer,
                        const ChoiceResult& delta, bool first, bool with_logprobs) {
  OrderedJson out = head_json(head, chunk_object(head));
  OrderedJson c;
  c["index"] = delta.index;
  if (head.form == AnswerForm::chat) {
    c["delta"] = OrderedJson::object();
    if (first) c["delta"]["role"] = "assistant";
    c["delta"]["content"] = delta.text;
  } else {
    c["text"] = delta.text;
  }
  c["logprobs"] = with_logprobs
                      ? logprobs_json(head.form, tokenizer, delta.logprobs, delta.first_offset)
                      : OrderedJson(nullptr);
  c["finish_reason"] = nullptr;
  out["choices"] = OrderedJson::array({std::move(c)});
  return out;
}

OrderedJson finish_chunk(const AnswerHead& head, int index, FinishReason reason) {
  OrderedJson out = head_json(head, chunk_object(head));
  OrderedJson c;
  c["index"] = index;
  if (head.form == AnswerForm::chat)
    c["delta"] = OrderedJson::object();
  else
    c["text"] = "";
  c["logprobs"] = nullptr;
  c["finish_reason"] = finish_reason_text(reason);
  out["choices"] = OrderedJson::array({std::move(c)});
  return out;
}

OrderedJson usage_chunk(const AnswerHead& head, const Usage& usage) {
  OrderedJson out = head_json(head, chunk_object(head));
  out["choices"] = OrderedJson::array();
  out["usage"] = usage_json(usage);
  return out;
}

}  // namespace strata::server
