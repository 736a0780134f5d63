#include "text/jinja/builtin.h"

#include <algorithm>

#include "text/jinja/operations.h"

namespace strata::jinja {
namespace {

struct Signature {
  struct Parameter {
    std::string_view name;
    bool optional;
  };
  std::vector<Parameter> parameters;
  size_t positional_only = 0;  // so many of the parameters cannot be given by name
  bool rest = false, rest_named = false;
};

Signature read_signature(std::string_view text) {
  Signature signature;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word == "*") {
      signature.rest = true;
    } else if (word == "**") {
      signature.rest_named = true;
    } else if (word == "/") {
      signature.positional_only = signature.parameters.size();
    } else {
      const bool optional = word.back() == '?';
      signature.parameters.push_back({word.substr(0, word.size() - (optional ? 1 : 0)), optional});
    }
  }
  return signature;
}

class FunctionObject : public CallableObject {
 public:
  explicit FunctionObject(const Builtin& builtin) : builtin_(builtin) {}
  Value call(Runtime& runtime, Arguments& arguments) override {
    return run_builtin(runtime, builtin_, arguments);
  }
  std::string describe() const override { return fmt::format("<function {}>", builtin_.name); }

 private:
  const Builtin& builtin_;
};

class MethodObject : public CallableObject {
 public:
  MethodObject(const Builtin& builtin, const Value& self) : builtin_(builtin), self_(self) {}
  Value call(Runtime& runtime, Arguments& arguments) override {
    arguments.positional.insert(arguments.positional.begin(), self_);
    return run_builtin(runtime, builtin_, arguments);
  }
  std::string describe() const override {
    return fmt::format("<built-in method {} of {} object>", builtin_.name, jinja::type_name(self_));
  }
  std::string_view type_name() const override { return "builtin_function_or_method"; }

 private:
  const Builtin& builtin_;
  Value self_;
};

}  // namespace

Bound bind(const Builtin& builtin, const Arguments& arguments) {
  const Signature signature = read_signature(builtin.parameters);
  const size_t count = signature.parameters.size();
  Bound bound;
  bound.names_origin = arguments.names_origin;
  bound.values.assign(count, absent_value());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < count) {
      bound.values[i] = arguments.positional[i];
    } else if (signature.rest) {
      bound.rest.push_back(arguments.positional[i]);
    } else {
      fail_render("{}() takes {} arguments but {} were given", builtin.name, count,
                  arguments.positional.size());
    }
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find_if(
        signature.parameters.begin() + static_cast<std::ptrdiff_t>(signature.positional_only),
        signature.parameters.end(),
        [&, n = std::string_view(name)](const auto& parameter) { return parameter.name == n; });
    if (found == signature.parameters.end()) {
      if (!signature.rest_named) {
        fail_render("{}() got an unexpected keyword argument '{}'", builtin.name, name);
      }
      bound.rest_named.emplace_back(name, value);
      continue;
    }
    const auto i = static_cast<size_t>(found - signature.parameters.begin());
    if (bound.has(i)) {
      fail_render("{}() got multiple values for argument '{}'", builtin.name, name);
    }
    bound.values[i] = value;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!signature.parameters[i].optional && !bound.has(i)) {
      fail_render("{}() missing 1 required positional argument: '{}'", builtin.name,
                  signature.parameters[i].name);
    }
  }
  return bound;
}

Value run_builtin(Runtime& runtime, const Builtin& builtin, const Arguments& arguments) {
  runtime.charge(1);
  runtime.charge_reading(arguments.positional);
  return builtin.run(runtime, bind(builtin, arguments));
}

Value call_filter(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) fail(ErrorCode::unsupported, "no filter named '{}'", name);
  return run_builtin(runtime, *filter, arguments);
}

bool call_test(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  const Builtin* test = find_test(name);
  if (test == nullptr) fail(ErrorCode::unsupported, "no test named '{}'", name);
  return truthy(run_builtin(runtime, *test, arguments));
}

int64_t integer_argument(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_integral()) {
    fail_render("{}: '{}' object cannot be interpreted as an integer", what, type_name(value));
  }
  return value.as_integer();
}

const MarkedText& text_argument(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is(Kind::string)) fail_render("{}: expected str, got {}", what, type_name(value));
  return value.text();
}

Value make_callable(Runtime& runtime, const Builtin& builtin) {
  return runtime.object(Kind::callable, runtime.heap().make<FunctionObject>(builtin));
}

Value make_method(Runtime& runtime, const Builtin& builtin, const Value& self) {
  return runtime.object(Kind::callable, runtime.heap().make<MethodObject>(builtin, self));
}

}  // namespace strata::jinja
