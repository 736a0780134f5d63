#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"

// The expressions of the interpreter.
namespace strata::jinja {

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Depth depth(*this);
  line_ = expression.line;
  return std::visit([&](const auto& node) { return eval(node, scope); }, expression.node);
}

Value Interpreter::eval(const Name& node, Scope& scope) {
  if (const Value* value = scope.find(node.name)) {
    if (!value->is(Kind::absent)) return *value;
  } else if (const Builtin* function = find_function(node.name)) {
    return make_callable(runtime_, *function);
  }
  return runtime_.undefined(fmt::format("'{}' is undefined", node.name));
}

Value Interpreter::eval(const SequenceLiteral& node, Scope& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return node.tuple ? runtime_.tuple(std::move(items)) : runtime_.list(std::move(items));
}

Value Interpreter::eval(const DictLiteral& node, Scope& scope) {
  auto* dict = runtime_.heap().make<DictObject>();
  for (const auto& [key, value] : node.entries) {
    const Value name = evaluate(*key, scope);
    runtime_.charge_reading(name);
    dict->set(name, evaluate(*value, scope));
  }
  return runtime_.object(Kind::dict, dict);
}

Value Interpreter::eval(const Attribute& node, Scope& scope) {
  return get_attribute(runtime_, evaluate(*node.object, scope), node.name);
}

Value Interpreter::eval(const Subscript& node, Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  return get_item(runtime_, object, evaluate(*node.key, scope));
}

Value Interpreter::eval(const Slice& node, Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  const auto part = [&](const ExpressionPtr& expression) {
    return expression ? evaluate(*expression, scope) : none_value();
  };
  const Value start = part(node.start);
  const Value stop = part(node.stop);
  return get_slice(runtime_, object, start, stop, part(node.step));
}

void Interpreter::add_arguments(const CallArguments& from, Scope& scope, Arguments& to) {
  for (const ExpressionPtr& argument : from.positional) {
    to.positional.push_back(evaluate(*argument, scope));
  }
  for (const auto& [name, value] : from.named) {
    const bool twice =
        std::any_of(to.named.begin(), to.named.end(),
                    [&, n = std::string_view(name)](const auto& pair) { return pair.first == n; });
    if (twice) fail_render("keyword argument repeated: {}", name);
    to.named.emplace_back(name, evaluate(*value, scope));
  }
  if (from.star) {
    const std::vector<Value> rest = collect(runtime_, evaluate(*from.star, scope));
    to.positional.insert(to.positional.end(), rest.begin(), rest.end());
  }
  if (from.double_star) {
    const Value rest = evaluate(*from.double_star, scope);
    if (!rest.is(Kind::dict)) {
      fail_render("argument after ** must be a mapping, not {}", type_name(rest));
    }
    for (const auto& [name, value] : rest.dict().entries()) {
      if (!name.is(Kind::string)) fail_render("keywords must be strings");
      to.names_origin = mix(to.names_origin, name.origin);
      to.named.emplace_back(name.text().bytes(), value);
    }
  }
}

Value Interpreter::run_call(const Call& node, Scope& scope, const Value* caller) {
  const Value callee = evaluate(*node.callee, scope);
  Arguments arguments;
  add_arguments(node.arguments, scope, arguments);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return jinja::call(runtime_, callee, arguments);
}

Value Interpreter::eval(const Call& node, Scope& scope) { return run_call(node, scope, nullptr); }

Value Interpreter::run_filter(const Filter& node, Scope& scope, const Value* block) {
  Arguments arguments;
  if (!node.value) {
    arguments.positional.push_back(*block);
  } else if (const auto* inner = std::get_if<Filter>(&node.value->node);
             inner != nullptr && block != nullptr) {
    arguments.positional.push_back(run_filter(*inner, scope, block));
  } else {
    arguments.positional.push_back(evaluate(*node.value, scope));
  }
  if (node.filter == nullptr) {
    fail(ErrorCode::unsupported, "no filter named '{}'", node.name);
  }
  add_arguments(node.arguments, scope, arguments);
  return run_builtin(runtime_, *node.filter, arguments);
}

Value Interpreter::eval(const Filter& node, Scope& scope) {
  return run_filter(node, scope, nullptr);
}

Value Interpreter::eval(const Test& node, Scope& scope) {
  Arguments arguments;
  arguments.positional.push_back(evaluate(*node.value, scope));
  if (node.test == nullptr) fail(ErrorCode::unsupported, "no test named '{}'", node.name);
  add_arguments(node.arguments, scope, arguments);
  return run_builtin(runtime_, *node.test, arguments);
}

Value Interpreter::eval(const Sign& node, Scope& scope) {
  return apply_sign(evaluate(*node.value, scope), node.negative);
}

Value Interpreter::eval(const Not& node, Scope& scope) {
  const Value value = evaluate(*node.value, scope);
  return bool_value(!truthy(value), value.origin);
}

Value Interpreter::eval(const Logical& node, Scope& scope) {
  const Value left = evaluate(*node.left, scope);
  return truthy(left) == node.is_and ? evaluate(*node.right, scope) : left;
}

Value Interpreter::eval(const Conditional& node, Scope& scope) {
  if (truthy(evaluate(*node.condition, scope))) return evaluate(*node.then, scope);
  if (node.otherwise) return evaluate(*node.otherwise, scope);
  return runtime_.undefined(
      "the inline if-expression evaluated to false and no else section was "
      "defined.");
}

Value Interpreter::eval(const Binary& node, Scope& scope) {
  const Value left = evaluate(*node.left, scope);
  return apply_binary(runtime_, node.which, left, evaluate(*node.right, scope));
}

Value Interpreter::eval(const Concat& node, Scope& scope) {
  MarkedText text;
  for (const ExpressionPtr& part : node.parts) {
    text.append(to_text(runtime_, evaluate(*part, scope)));
    runtime_.charge_bytes(0);
  }
  return runtime_.string(std::move(text));
}

bool Interpreter::compare_once(Comparator which, const Value& a, const Value& b) {
  switch (which) {
    case Comparator::eq:
      return equals(runtime_, a, b);
    case Comparator::ne:
      return !equals(runtime_, a, b);
    case Comparator::in:
      return contains(runtime_, b, a);
    case Comparator::not_in:
      return !contains(runtime_, b, a);
    case Comparator::lt:
      return compare(runtime_, a, b, "<").value_or(1) < 0;
    case Comparator::le:
      return compare(runtime_, a, b, "<=").value_or(1) <= 0;
    case Comparator::gt:
      return compare(runtime_, a, b, ">").value_or(-1) > 0;
    case Comparator::ge:
      return compare(runtime_, a, b, ">=").value_or(-1) >= 0;
  }
  return false;
}

Value Interpreter::eval(const Compare& node, Scope& scope) {
  Value left = evaluate(*node.first, scope);
  Origin origin = left.origin;
  for (const auto& [which, expression] : node.rest) {
    const Value right = evaluate(*expression, scope);
    origin = mix(origin, right.origin);
    if (!compare_once(which, left, right)) return bool_value(false, origin);
    left = right;
  }
  return bool_value(true, origin);
}

}  // namespace strata::jinja
