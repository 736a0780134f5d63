#pragma once

#include "text/jinja/interpreter.h"

namespace strata::jinja {

// A macro, or the body of a call block as `caller`. Binds arguments as jinja2's Macro does and
// gives the text that its body prints.
class MacroObject : public CallableObject {
 public:
  MacroObject(Interpreter& interpreter, const MacroDefinition& macro, Scope& closure)
      : interpreter_(interpreter), macro_(macro), closure_(closure) {}

  Value call(Runtime& runtime, Arguments& arguments) override;
  std::string describe() const override;
  Value attribute(Runtime& runtime, std::string_view name) override;
  std::string_view type_name() const override { return "Macro"; }

 private:
  void bind_parameters(Runtime& runtime, Arguments& arguments, Scope& scope);
  void bind_rest(Runtime& runtime, Arguments& arguments, Scope& scope);

  Interpreter& interpreter_;
  const MacroDefinition& macro_;
  Scope& closure_;
};

}  // namespace strata::jinja
