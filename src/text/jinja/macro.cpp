#include "text/jinja/macro.h"

#include <algorithm>

namespace strata::jinja {
namespace {

// Takes a named argument out; absent if it is not there.
Value take_named(Arguments& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  if (found == arguments.named.end()) return absent_value();
  const Value value = found->second;
  arguments.named.erase(found);
  return value;
}

}  // namespace

std::string MacroObject::describe() const {
  return macro_.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", macro_.name);
}

Value MacroObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "name" && macro_.name.empty()) return none_value();
  if (name == "name") return runtime.string(macro_.name, Origin::from_template);
  if (name == "catch_kwargs") return bool_value(macro_.takes_rest_named);
  if (name == "catch_varargs") return bool_value(macro_.takes_rest);
  if (name == "caller") return bool_value(macro_.takes_caller);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Parameter& parameter : macro_.parameters) {
      names.push_back(runtime.string(parameter.name, Origin::from_template));
    }
    return runtime.tuple(std::move(names));
  }
  return absent_value();
}

void MacroObject::bind_parameters(Runtime& runtime, Arguments& arguments, Scope& scope) {
  const size_t count = macro_.parameters.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro_.parameters[i].name;
    scope.set(name, i < arguments.positional.size() ? arguments.positional[i]
                                                    : take_named(arguments, name));
  }
  bind_rest(runtime, arguments, scope);
  // A fallback sees all parameters; those not given and not yet filled in are undefined to it.
  for (const Parameter& parameter : macro_.parameters) {
    if (!scope.find(parameter.name)->is(Kind::absent)) continue;
    scope.set(parameter.name, parameter.fallback
                                  ? interpreter_.evaluate(*parameter.fallback, scope)
                                  : runtime.undefined(fmt::format("parameter '{}' was not provided",
                                                                  parameter.name)));
  }
}

void MacroObject::bind_rest(Runtime& runtime, Arguments& arguments, Scope& scope) {
  const size_t count = macro_.parameters.size();
  const bool declares_caller =
      std::any_of(macro_.parameters.begin(), macro_.parameters.end(),
                  [](const Parameter& parameter) { return parameter.name == "caller"; });
  if (macro_.takes_caller && !declares_caller) {
    const Value caller = take_named(arguments, "caller");
    const bool given = !caller.is(Kind::absent) && !caller.is(Kind::none);
    scope.set("caller", given ? caller : runtime.undefined("No caller defined"));
  }
  if (macro_.takes_rest_named) {
    auto* rest = runtime.heap().make<DictObject>();
    for (const auto& [name, value] : arguments.named) {
      rest->set(runtime.string(name, arguments.names_origin), value);
    }
    scope.set("kwargs", runtime.object(Kind::dict, rest));
  } else if (!arguments.named.empty()) {
    const std::string& name = arguments.named.front().first;
    if (name == "caller") {
      fail_render("macro '{}' was invoked with two values for the special caller argument",
                  macro_.name);
    }
    fail_render("macro '{}' takes no keyword argument '{}'", macro_.name, name);
  }
  if (macro_.takes_rest) {
    std::vector<Value> rest;
    for (size_t i = count; i < arguments.positional.size(); ++i) {
      rest.push_back(arguments.positional[i]);
    }
    scope.set("varargs", runtime.tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    fail_render("macro '{}' takes not more than {} argument(s)", macro_.name, count);
  }
}

Value MacroObject::call(Runtime& runtime, Arguments& arguments) {
  const Interpreter::Depth depth(interpreter_);
  Scope& scope = interpreter_.open_scope(macro_.frame, closure_);
  bind_parameters(runtime, arguments, scope);
  Interpreter::Capture capture(interpreter_);
  interpreter_.run_block(macro_.body, scope);
  return capture.value();
}

}  // namespace strata::jinja
