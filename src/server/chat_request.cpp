#include "server/chat_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "engine/chat_prompt.h"
#include "server/api_error.h"
#include "server/field_tables.h"

namespace strata::server {
namespace {

// OrderedJson from the sorted kind; objects inside messages are small.
OrderedJson ordered(const Json& value) { return OrderedJson::parse(to_json_text(value)); }

std::string where(size_t index, std::string_view field) {
  return fmt::format("messages[{}].{}", index, field);
}

// Text, text parts joined with nothing, or null where the assistant may have it.
OrderedJson read_content(const Json* content, bool may_be_null, size_t index) {
  if (content == nullptr) {
    if (may_be_null) return nullptr;
    throw bad_field("messages", where(index, "content") + ": missing; wanted text or text parts");
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    throw bad_field("messages",
                    where(index, "content") + ": wanted text or an array of text parts");
  std::string text;
  for (const Json& part : *content) {
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
      throw bad_field("messages", where(index, "content") + ": a part is no object with a type");
    const auto type = part["type"].get<std::string>();
    if (type != "text")
      throw unsupported_field("messages",
                              fmt::format("{}: parts of type '{}' are not supported, only 'text'",
                                          where(index, "content"), clipped_utf8(type, 40)));
    for (const auto& [key, value] : part.items())
      if (key != "type" && key != "text")
        throw bad_field("messages", fmt::format("{}: unknown key '{}' in a text part",
                                                where(index, "content"), clipped_utf8(key, 40)));
    if (!part.contains("text") || !part["text"].is_string())
      throw bad_field("messages", where(index, "content") + ": a text part without text");
    text += part["text"].get<std::string>();
  }
  return text;
}

// Tool calls as templates expect them: arguments, a JSON text in the API, become an object.
OrderedJson read_tool_calls(const Json& calls, size_t index) {
  if (!calls.is_array())
    throw bad_field("messages", where(index, "tool_calls") + ": wanted an array");
  OrderedJson out = ordered(calls);
  for (OrderedJson& call : out) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      throw bad_field("messages", where(index, "tool_calls") + ": a call without a function");
    OrderedJson& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    try {
      function["arguments"] = parse_ordered_json(function["arguments"].get<std::string>());
    } catch (const Error&) {
      // Not JSON after all: the template gets the text as it is.
    }
  }
  return out;
}

std::string read_role(const RequestFields& message, size_t index, ChatMessages& out) {
  std::string role = message.text("role").value_or("");
  if (role.empty()) throw bad_field("messages", where(index, "role") + ": missing or empty");
  if (role == "developer") return "system";
  const auto known = {"system", "user", "assistant", "tool"};
  if (std::find(known.begin(), known.end(), role) == known.end() && out.unknown_role.empty())
    out.unknown_role = role;
  return role;
}

void refuse_what_is_not_here_yet(const RequestFields& fields) {
  const Json* tools = fields.find("tools");
  if (tools != nullptr && (!tools->is_array() || !tools->empty()))
    throw unsupported_field("tools", "tools: not supported by this version; leave it out or empty");
  if (const Json* choice = fields.find("tool_choice")) {
    if (*choice == "required")
      throw bad_field("tool_choice",
                      "tool_choice: 'required' needs tools (llama-index: set "
                      "should_use_structured_outputs or is_function_calling_model=False)");
    if (*choice != "none" && *choice != "auto")
      throw unsupported_field("tool_choice", "tool_choice: only 'none' and 'auto' without tools");
  }
  fields.boolean("parallel_tool_calls");
  if (const Json* format = fields.find("response_format")) {
    if (!format->is_object() || !format->contains("type") || !(*format)["type"].is_string())
      throw bad_field("response_format", "response_format: wanted an object with a type");
    if ((*format)["type"] != "text")
      throw unsupported_field(
          "response_format",
          "response_format: only {\"type\":\"text\"} is supported by this version");
  }
}

void read_token_limit(const RequestFields& fields, GenerationRequest& request) {
  const auto other =
      fields.integer("max_completion_tokens", 0, std::numeric_limits<int64_t>::max());
  if (other && request.max_tokens && *other != *request.max_tokens)
    throw bad_field("max_completion_tokens",
                    fmt::format("max_completion_tokens is {}, max_tokens is {}: give one of them",
                                *other, *request.max_tokens));
  if (other) request.max_tokens = other;
  if (request.max_tokens == 0)
    throw bad_field(other ? "max_completion_tokens" : "max_tokens",
                    fmt::format("{}: got 0, wanted at least 1",
                                other ? "max_completion_tokens" : "max_tokens"));
}

void read_logprobs(const RequestFields& fields, GenerationRequest& request) {
  const bool asked = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !asked)
    throw bad_field("top_logprobs", "top_logprobs is only allowed with \"logprobs\": true");
  if (asked) request.top_logprobs = static_cast<int>(top.value_or(0));
}

// Variables for the template; one it does not read would be ignored silently, so it is refused.
OrderedJson read_template_variables(const RequestFields& fields,
                                    const ChatTemplate* chat_template) {
  OrderedJson extra = OrderedJson::object();
  if (const Json* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object())
      throw bad_field("chat_template_kwargs", "chat_template_kwargs: wanted an object");
    extra = ordered(*kwargs);
  }
  if (const auto effort = fields.text("reasoning_effort")) extra["reasoning_effort"] = *effort;
  for (const auto& [key, value] : extra.items()) {
    if (key == "messages" || key == "tools" || key == "add_generation_prompt" ||
        key == "bos_token" || key == "eos_token")
      throw bad_field("chat_template_kwargs",
                      fmt::format("chat_template_kwargs: '{}' is set by the server", key));
    const char* const field =
        key == "reasoning_effort" ? "reasoning_effort" : "chat_template_kwargs";
    if (chat_template != nullptr && !chat_template->reads_variable(key))
      throw bad_field(field, fmt::format("{}: the model's chat template does not read '{}'", field,
                                         clipped_utf8(key, 80)));
  }
  return extra;
}

}  // namespace

namespace {

// One message as templates expect it. Keys that are null are absent, as in transformers, so that no
// template prints "None" for an assistant's null content.
OrderedJson read_message(const Json& json, size_t index, ChatMessages& out) {
  const RequestFields message(json, message_fields(), false);
  OrderedJson m;
  m["role"] = read_role(message, index, out);
  const Json* calls = message.find("tool_calls");
  OrderedJson content = read_content(message.find("content"), m["role"] == "assistant", index);
  if (!content.is_null()) m["content"] = std::move(content);
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning"})
    if (const auto text = message.text(key)) m[key] = *text;
  if (calls != nullptr && !calls->empty()) m["tool_calls"] = read_tool_calls(*calls, index);
  return m;
}

}  // namespace

ChatMessages read_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    throw bad_field("messages", "messages: wanted an array of at least one message");
  ChatMessages out;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      throw bad_field("messages", fmt::format("messages[{}]: wanted an object", i));
    try {
      out.messages.push_back(read_message(messages[i], i, out));
    } catch (const ApiError& e) {
      if (e.param == "messages") throw;
      throw bad_field("messages", fmt::format("messages[{}]: {}", i, e.what()));
    }
  }
  return out;
}

GenerationAsk read_chat(const RequestFields& fields, const Engine& engine, const Caller& caller) {
  GenerationAsk ask = read_generation(fields, engine, caller);
  refuse_what_is_not_here_yet(fields);
  read_token_limit(fields, ask.base);
  read_logprobs(fields, ask.base);
  const Json* messages = fields.find("messages");
  if (messages == nullptr) throw bad_field("messages", "messages: missing");
  ChatMessages chat = read_messages(*messages);

  OrderedJson extra = read_template_variables(fields, engine.chat_template());
  const bool parse_special = fields.boolean("parse_special").value_or(false);
  try {
    ask.base.prompt =
        chat_prompt(engine, std::move(chat.messages), std::move(extra), parse_special);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) throw;
    throw ApiError(400, "invalid_request_error", e.what(),
                   e.code() == ErrorCode::unsupported ? "unsupported" : "invalid_value",
                   "messages");
  }
  if (!chat.unknown_role.empty())
    throw bad_field(
        "messages",
        fmt::format("unknown role '{}'; wanted system, developer, user, assistant or tool",
                    clipped_utf8(chat.unknown_role, 80)));
  return ask;
}

}  // namespace strata::server
