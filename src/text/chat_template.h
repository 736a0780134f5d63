#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace strata {

// A rendered prompt with the origin of each byte: from_template[i] is 1 where text[i] came from the
// template's own literals or the model's own bos/eos strings, 0 where it came from the request.
struct RenderedPrompt {
  std::string text;
  std::vector<uint8_t> from_template;
};

struct ChatTemplateInputs {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // null: none
  OrderedJson extra;      // chat_template_kwargs: an object, or null
  std::string bos_token;  // the model's own spellings
  std::string eos_token;
  bool add_generation_prompt = true;
  int64_t unix_time = 0;  // what strftime_now shows, UTC
};

// A Jinja template as chat models use it, compiled once; render() may run in any thread. Renders
// byte for byte what Python's jinja2 gives in the set-up of transformers.apply_chat_template
// (sandboxed, trim_blocks, lstrip_blocks). Work and output are bounded.
class ChatTemplate {
 public:
  // Throws Error{data_corrupt} with line and reason for what is no Jinja, {unsupported} for a
  // construct strata does not have.
  static ChatTemplate parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws Error{invalid_argument} with the template's own message (raise_exception), or what went
  // wrong in it.
  RenderedPrompt render(const ChatTemplateInputs& inputs) const;

  // Whether the template reads the variable at all ("enable_thinking", "tools").
  bool reads_variable(std::string_view name) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
