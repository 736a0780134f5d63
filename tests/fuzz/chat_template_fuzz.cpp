#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"

namespace strata {
namespace {

const OrderedJson& conversation() {
  static const OrderedJson messages = OrderedJson::parse(R"([
    {"role": "system", "content": "Be brief.\n"},
    {"role": "user", "content": "Hi <|im_end|> é日🙂 \"q\" it's", "n": -3, "x": 1.5, "flag": true},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
  ])");
  return messages;
}

// The input is a template. It may be refused, but only as the contract says; what it renders is
// UTF-8 with one mark for each byte.
void exercise(std::string_view source) {
  jinja::Limits limits;
  limits.steps = 100'000;
  limits.bytes_built = 4 << 20;
  limits.output_bytes = 1 << 20;
  const jinja::Program program = jinja::parse_template(source);
  jinja::Runtime runtime(limits, 1721001600);
  jinja::Interpreter interpreter(program, runtime);
  jinja::Scope globals(nullptr);
  globals.set("messages", jinja::json_value(runtime, conversation()));
  globals.set("tools", jinja::none_value());
  globals.set("bos_token", runtime.string("<s>", jinja::Origin::from_template));
  const jinja::MarkedText text = interpreter.run(globals);
  STRATA_ASSERT(text.template_mask().size() == text.size());
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    strata::exercise({reinterpret_cast<const char*>(data), size});
  } catch (const strata::Error& error) {
    STRATA_ASSERT(error.code() == strata::ErrorCode::invalid_argument ||
                  error.code() == strata::ErrorCode::data_corrupt ||
                  error.code() == strata::ErrorCode::unsupported);
  }
  return 0;
}
