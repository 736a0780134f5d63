#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {

// The variables of a block; those of the blocks around it are seen through `parent`. Loops, macros,
// with, set, filter and call blocks open one, `if` does not. An absent value is a name that the
// block sets later (Frame): it is undefined and hides those around.
struct Scope : Object {
  explicit Scope(Scope* around) : parent(around) {}
  Scope* parent;
  std::vector<std::pair<std::string_view, Value>> variables;  // names live in the program

  const Value* find(std::string_view name) const;
  void set(std::string_view name, const Value& value);
};

// Runs one program once.
class Interpreter {
 public:
  Interpreter(const Program& program, Runtime& runtime) : program_(program), runtime_(runtime) {}

  // `globals` are what the template sees at the start; it keeps its own names elsewhere. Throws
  // Error{invalid_argument}.
  MarkedText run(Scope& globals);
  // Where it was when it failed.
  int line() const { return line_; }

 private:
  friend class MacroObject;
  friend class LoopObject;
  enum class Flow : uint8_t { normal, break_loop, continue_loop };

  // Counts the nesting of what runs; throws beyond Limits::depth.
  class Depth;
  // Sends what is printed to a text of its own while it lives.
  class Capture;

  // A new scope inside another, for a frame's names.
  Scope& open_scope(const Frame& frame, Scope& around);
  Flow run_block(const Block& block, Scope& scope);
  Flow run_statement(const Statement& statement, Scope& scope);
  Flow run(const If& node, Scope& scope);
  // `break` and `continue` in the else block of a loop are for the loop around it.
  Flow run_for(const For& node, Scope& scope, const Value& iterable, int64_t depth);
  Flow run(const SetBlock& node, Scope& scope);
  Flow run(const FilterBlock& node, Scope& scope);
  Flow run(const With& node, Scope& scope);
  void run(const CallBlock& node, Scope& scope);
  void print(const MarkedText& text);
  void assign(const Target& target, const Value& value, Scope& scope);
  Value make_macro(const MacroDefinition& macro, Scope& scope);

  Value evaluate(const Expression& expression, Scope& scope);
  Value eval(const Constant& node, Scope&) { return node.value; }
  Value eval(const Name& node, Scope& scope);
  Value eval(const SequenceLiteral& node, Scope& scope);
  Value eval(const DictLiteral& node, Scope& scope);
  Value eval(const Attribute& node, Scope& scope);
  Value eval(const Subscript& node, Scope& scope);
  Value eval(const Slice& node, Scope& scope);
  Value eval(const Call& node, Scope& scope);
  Value eval(const Filter& node, Scope& scope);
  Value eval(const Test& node, Scope& scope);
  Value eval(const Sign& node, Scope& scope);
  Value eval(const Not& node, Scope& scope);
  Value eval(const Logical& node, Scope& scope);
  Value eval(const Conditional& node, Scope& scope);
  Value eval(const Binary& node, Scope& scope);
  Value eval(const Concat& node, Scope& scope);
  Value eval(const Compare& node, Scope& scope);
  bool compare_once(Comparator which, const Value& a, const Value& b);
  void add_arguments(const CallArguments& from, Scope& scope, Arguments& to);
  Value run_call(const Call& node, Scope& scope, const Value* caller);
  // A chain of filters; `block` stands for the missing value at its start.
  Value run_filter(const Filter& node, Scope& scope, const Value* block);

  const Program& program_;
  Runtime& runtime_;
  MarkedText* out_ = nullptr;
  int depth_ = 0;
  int line_ = 0;
};

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter_.depth_ >= interpreter_.runtime_.limits().depth) {
      fail_render("nested deeper than {} levels while rendering (endless recursion?)",
                  interpreter_.runtime_.limits().depth);
    }
    ++interpreter_.depth_;
    interpreter_.runtime_.charge(1);
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& interpreter_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.out_) {
    interpreter_.out_ = &text_;
  }
  ~Capture() { interpreter_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value value() { return interpreter_.runtime_.string(std::move(text_)); }

 private:
  Interpreter& interpreter_;
  MarkedText* outer_;
  MarkedText text_;
};

}  // namespace strata::jinja
