#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/builtin.h"
#include "text/jinja/operations.h"
#include "text/jinja/value.h"

namespace strata::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Constant {
  Value value;  // owned by the template's heap
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, key;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // the parts may be null
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;  // may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr value;  // null in filter blocks: the block's text
  std::string name;
  const Builtin* filter = nullptr;  // null: unknown; in an `if`, an error only when it runs
  CallArguments arguments;
};
struct Test {
  ExpressionPtr value;
  std::string name;
  const Builtin* test = nullptr;
  CallArguments arguments;
};
struct Sign {
  ExpressionPtr value;
  bool negative = false;
};
struct Not {
  ExpressionPtr value;
};
struct Logical {
  ExpressionPtr left, right;
  bool is_and = false;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // `otherwise` may be null
};
struct Binary {
  BinaryOperator which = BinaryOperator::add;
  ExpressionPtr left, right;
};
struct Concat {
  std::vector<ExpressionPtr> parts;
};
enum class Comparator : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<Comparator, ExpressionPtr>> rest;
};

struct Expression {
  int line = 0;
  std::variant<Constant, Name, SequenceLiteral, DictLiteral, Attribute, Subscript, Slice, Call,
               Filter, Test, Sign, Not, Logical, Conditional, Binary, Concat, Compare>
      node;
};

// What an assignment writes to: a name, namespace.attribute, or several of them.
struct Target {
  std::string name;
  std::string attribute;        // not empty: namespace.attribute
  std::vector<Target> targets;  // unpacking, if `unpacks`
  bool unpacks = false;
};

struct Statement;
using Block = std::vector<Statement>;

// What resolve_frames() finds out about a scope: the names it sets before it reads them. They are
// undefined until then, in the blocks inside it too, whatever the request calls so.
struct Frame {
  std::vector<std::string> unset;
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined when not given
};
// The body of a macro, of a call block or of {% generation %}.
struct MacroDefinition {
  std::string name;  // empty for blocks
  int line = 0;
  std::vector<Parameter> parameters;
  Block body;
  Frame frame;
  bool takes_rest = false, takes_rest_named = false, takes_caller = false;
};

struct Data {
  Value text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // may be null
  Block body, otherwise;
  Frame body_frame, otherwise_frame;
  bool recursive = false;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Block body;
  Frame frame;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
  Frame frame;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Frame frame;
};
struct MacroStatement {
  std::unique_ptr<MacroDefinition> macro;
};
struct CallBlock {
  std::unique_ptr<MacroDefinition> caller;
  ExpressionPtr call;
};
// {% generation %}: marks the assistant's words for training; here it only prints them. To jinja2
// it is a call block, so it has the scope of one.
struct Generation {
  std::unique_ptr<MacroDefinition> body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Data, Print, If, For, Set, SetBlock, FilterBlock, With, MacroStatement, CallBlock,
               Generation, Break, Continue>
      node;
};

// A compiled template. `heap` owns the constants.
struct Program {
  Heap heap;
  Block body;
  Frame frame;
  std::vector<std::string> names;  // every variable the template reads, sorted
};

}  // namespace strata::jinja
