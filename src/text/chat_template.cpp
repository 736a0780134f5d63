#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/jinja/functions.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"

namespace strata {

struct ChatTemplate::Impl {
  jinja::Program program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(std::string_view source) {
  auto impl = std::make_unique<Impl>();
  impl->program = jinja::parse_template(source);
  return ChatTemplate(std::move(impl));
}

RenderedPrompt ChatTemplate::render(const ChatTemplateInputs& inputs) const {
  jinja::Runtime runtime(jinja::Limits{}, inputs.unix_time);
  jinja::Interpreter interpreter(impl_->program, runtime);
  try {
    jinja::Scope globals(nullptr);
    const auto own = [&](const std::string& text) {
      return runtime.string(text, jinja::Origin::from_template);
    };
    globals.set("messages", jinja::json_value(runtime, inputs.messages));
    globals.set("tools", jinja::json_value(runtime, inputs.tools));
    globals.set("documents", jinja::none_value());
    globals.set("add_generation_prompt", jinja::bool_value(inputs.add_generation_prompt));
    globals.set("bos_token", own(inputs.bos_token));
    globals.set("eos_token", own(inputs.eos_token));
    if (!inputs.extra.is_null()) {
      if (!inputs.extra.is_object()) {
        fail(ErrorCode::invalid_argument, "chat template: the extra variables are no JSON object");
      }
      for (const auto& [name, value] : inputs.extra.items()) {
        if (name == "messages") continue;
        globals.set(name, jinja::json_value(runtime, value));
      }
    }
    const jinja::MarkedText text = interpreter.run(globals);
    return RenderedPrompt{text.bytes(), text.template_mask()};
  } catch (const jinja::RaisedByTemplate& error) {
    fail(ErrorCode::invalid_argument, "{}", error.what());
  } catch (const Error& error) {
    fail(error.code(), "chat template: line {}: {}", interpreter.line(), error.what());
  }
}

bool ChatTemplate::reads_variable(std::string_view name) const {
  const auto& names = impl_->program.names;
  return std::binary_search(names.begin(), names.end(), name);
}

}  // namespace strata
