#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/operations.h"

namespace strata::jinja {
namespace {

// A scope lives to the end of the render, so each turn of a loop costs memory.
constexpr int64_t kScopeCost = 8;

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, const Value& value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = value;
      return;
    }
  }
  variables.emplace_back(name, value);
}

MarkedText Interpreter::run(Scope& globals) {
  MarkedText output;
  out_ = &output;
  run_block(program_.body, open_scope(program_.frame, globals));
  out_ = nullptr;
  return output;
}

Scope& Interpreter::open_scope(const Frame& frame, Scope& around) {
  runtime_.charge(static_cast<int64_t>(frame.unset.size()));
  Scope& scope = *runtime_.heap().make<Scope>(&around);
  scope.variables.reserve(frame.unset.size());
  for (const std::string& name : frame.unset) scope.variables.emplace_back(name, absent_value());
  return scope;
}

void Interpreter::print(const MarkedText& text) {
  runtime_.charge_bytes(text.size());
  if (out_->size() + text.size() > runtime_.limits().output_bytes) {
    fail_render("rendering gives more than {} bytes", runtime_.limits().output_bytes);
  }
  out_->append(text);
}

Interpreter::Flow Interpreter::run_block(const Block& block, Scope& scope) {
  for (const Statement& statement : block) {
    const Flow flow = run_statement(statement, scope);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement, Scope& scope) {
  const Depth depth(*this);
  line_ = statement.line;
  if (const auto* data = std::get_if<Data>(&statement.node)) {
    print(data->text.text());
  } else if (const auto* shown = std::get_if<Print>(&statement.node)) {
    const Value value = evaluate(*shown->value, scope);
    if (value.is(Kind::string)) {
      print(value.text());
    } else {
      print(to_text(runtime_, value));
    }
  } else if (const auto* choice = std::get_if<If>(&statement.node)) {
    return run(*choice, scope);
  } else if (const auto* loop = std::get_if<For>(&statement.node)) {
    return run_for(*loop, scope, evaluate(*loop->iterable, scope), 0);
  } else if (const auto* set = std::get_if<Set>(&statement.node)) {
    assign(set->target, evaluate(*set->value, scope), scope);
  } else if (const auto* set_block = std::get_if<SetBlock>(&statement.node)) {
    return run(*set_block, scope);
  } else if (const auto* filter = std::get_if<FilterBlock>(&statement.node)) {
    return run(*filter, scope);
  } else if (const auto* with = std::get_if<With>(&statement.node)) {
    return run(*with, scope);
  } else if (const auto* macro = std::get_if<MacroStatement>(&statement.node)) {
    scope.set(macro->macro->name, make_macro(*macro->macro, scope));
  } else if (const auto* call_block = std::get_if<CallBlock>(&statement.node)) {
    run(*call_block, scope);
  } else if (const auto* generation = std::get_if<Generation>(&statement.node)) {
    Arguments none;
    print(make_macro(*generation->body, scope).callable().call(runtime_, none).text());
  } else if (std::holds_alternative<Break>(statement.node)) {
    return Flow::break_loop;
  } else {
    return Flow::continue_loop;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const If& node, Scope& scope) {
  for (const auto& [condition, body] : node.branches) {
    if (truthy(evaluate(*condition, scope))) return run_block(body, scope);
  }
  return run_block(node.otherwise, scope);
}

Interpreter::Flow Interpreter::run_for(const For& node, Scope& scope, const Value& iterable,
                                       int64_t depth) {
  Cursor cursor(runtime_, iterable);
  LoopObject::Source source;
  source.origin = iterable.origin;
  if (node.condition) {
    source.next = [&](Value& item) {
      while (cursor.next(item)) {
        runtime_.charge(kScopeCost);
        Scope& inner = *runtime_.heap().make<Scope>(&scope);
        assign(node.target, item, inner);
        if (truthy(evaluate(*node.condition, inner))) return true;
      }
      return false;
    };
  } else {
    source.next = [&](Value& item) { return cursor.next(item); };
    if (has_length(iterable)) source.length = length(iterable);
  }
  std::function<Value(const Value&)> recurse;
  if (node.recursive) {
    recurse = [this, &node, &scope, depth](const Value& children) {
      const Depth nesting(*this);
      Capture capture(*this);
      run_for(node, scope, children, depth + 1);
      return capture.value();
    };
  }
  auto* loop = runtime_.heap().make<LoopObject>(std::move(source), depth, std::move(recurse));
  const Value loop_value = runtime_.object(Kind::callable, loop);
  // As in jinja2, `else` runs when no turn reached the end of the body.
  bool completed_a_turn = false;
  Value item;
  while (loop->advance(item)) {
    runtime_.charge(kScopeCost);
    Scope& inner = open_scope(node.body_frame, scope);
    assign(node.target, item, inner);
    inner.set("loop", loop_value);
    const Flow flow = run_block(node.body, inner);
    if (flow == Flow::break_loop) break;
    if (flow == Flow::normal) completed_a_turn = true;
  }
  loop->finish();
  if (completed_a_turn) return Flow::normal;
  return run_block(node.otherwise, open_scope(node.otherwise_frame, scope));
}

Interpreter::Flow Interpreter::run(const SetBlock& node, Scope& scope) {
  Scope& inner = open_scope(node.frame, scope);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = run_block(node.body, inner);
    if (flow != Flow::normal) return flow;
    text = capture.value();
  }
  if (node.filter) text = run_filter(std::get<Filter>(node.filter->node), inner, &text);
  assign(node.target, text, scope);
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const FilterBlock& node, Scope& scope) {
  Scope& inner = open_scope(node.frame, scope);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = run_block(node.body, inner);
    if (flow != Flow::normal) return flow;
    text = capture.value();
  }
  print(to_text(runtime_, run_filter(std::get<Filter>(node.filter->node), inner, &text)));
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const With& node, Scope& scope) {
  Scope& inner = open_scope(node.frame, scope);
  // The values are read outside of the new scope.
  for (const auto& [target, value] : node.assignments) {
    assign(target, evaluate(*value, scope), inner);
  }
  return run_block(node.body, inner);
}

void Interpreter::run(const CallBlock& node, Scope& scope) {
  const Value caller = make_macro(*node.caller, scope);
  print(to_text(runtime_, run_call(std::get<Call>(node.call->node), scope, &caller)));
}

Value Interpreter::make_macro(const MacroDefinition& macro, Scope& scope) {
  return runtime_.object(Kind::callable, runtime_.heap().make<MacroObject>(*this, macro, scope));
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.unpacks) {
    const std::vector<Value> items = collect(runtime_, value);
    if (items.size() < target.targets.size()) {
      fail_render("not enough values to unpack (expected {}, got {})", target.targets.size(),
                  items.size());
    }
    if (items.size() > target.targets.size()) {
      fail_render("too many values to unpack (expected {})", target.targets.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.targets[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    scope.set(target.name, value);
    return;
  }
  const Value* owner = scope.find(target.name);
  if (owner == nullptr || !owner->is(Kind::name_space)) {
    fail_render("cannot assign attribute on non-namespace object");
  }
  if (target.attribute[0] == '_') {
    fail_render("cannot store underscore-prefixed attribute '{}' on a namespace", target.attribute);
  }
  owner->name_space().attributes.set(runtime_.string(target.attribute, Origin::from_template),
                                     value);
}

}  // namespace strata::jinja
