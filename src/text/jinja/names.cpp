#include "text/jinja/names.h"

#include "base/error.h"

namespace strata::jinja {
namespace {

class ExpressionNames {
 public:
  ExpressionNames(UnknownFilters unknown, const NameReader& read)
      : unknown_(unknown), read_(read) {}

  void walk(const ExpressionPtr& expression) {
    if (!expression) return;
    const int outer_line = line_;
    line_ = expression->line;
    std::visit([&](const auto& node) { visit(node); }, expression->node);
    line_ = outer_line;
  }

 private:
  void visit(const Constant&) {}
  void visit(const Name& node) { read_(node.name); }
  void visit(const SequenceLiteral& node) {
    for (const ExpressionPtr& item : node.items) walk(item);
  }
  void visit(const DictLiteral& node) {
    for (const auto& [key, value] : node.entries) {
      walk(key);
      walk(value);
    }
  }
  void visit(const Attribute& node) { walk(node.object); }
  void visit(const Subscript& node) {
    walk(node.object);
    walk(node.key);
  }
  void visit(const Slice& node) {
    walk(node.object);
    walk(node.start);
    walk(node.stop);
    walk(node.step);
  }
  void visit(const CallArguments& node) {
    for (const ExpressionPtr& argument : node.positional) walk(argument);
    for (const auto& [name, argument] : node.named) walk(argument);
    walk(node.star);
    walk(node.double_star);
  }
  void visit(const Call& node) {
    walk(node.callee);
    visit(node.arguments);
  }
  void visit(const Filter& node) {
    check(node.filter, "filter", node.name);
    walk(node.value);
    visit(node.arguments);
  }
  void visit(const Test& node) {
    check(node.test, "test", node.name);
    walk(node.value);
    visit(node.arguments);
  }
  void visit(const Sign& node) { walk(node.value); }
  void visit(const Not& node) { walk(node.value); }
  void visit(const Logical& node) {
    walk(node.left);
    walk(node.right);
  }
  void visit(const Conditional& node) {
    const UnknownFilters outer = unknown_;
    unknown_ = UnknownFilters::leave;
    walk(node.condition);
    walk(node.then);
    walk(node.otherwise);
    unknown_ = outer;
  }
  void visit(const Binary& node) {
    walk(node.left);
    walk(node.right);
  }
  void visit(const Concat& node) {
    for (const ExpressionPtr& part : node.parts) walk(part);
  }
  void visit(const Compare& node) {
    walk(node.first);
    for (const auto& [which, value] : node.rest) walk(value);
  }

  void check(const Builtin* builtin, std::string_view what, std::string_view name) const {
    if (builtin != nullptr || unknown_ == UnknownFilters::leave) return;
    fail(ErrorCode::unsupported, "chat template: line {}: no {} named '{}'", line_, what, name);
  }

  UnknownFilters unknown_;
  const NameReader& read_;
  int line_ = 0;
};

class BlockMentions {
 public:
  explicit BlockMentions(const MentionReader& mentioned)
      : mentioned_(mentioned),
        read_([this](std::string_view name) { mentioned_(name, Mention::read, line_); }) {}

  void walk(const Block& block) {
    for (const Statement& statement : block) {
      line_ = statement.line;
      std::visit([&](const auto& node) { visit(node); }, statement.node);
    }
  }

 private:
  void read(const ExpressionPtr& value) { for_each_name(value, UnknownFilters::leave, read_); }
  void write(const Target& target) {
    for (const Target& part : target.targets) write(part);
    if (!target.unpacks && target.attribute.empty()) {
      mentioned_(target.name, Mention::written, line_);
    }
  }
  void macro(const MacroDefinition& node) {
    for (const Parameter& parameter : node.parameters) read(parameter.fallback);
    walk(node.body);
  }

  void visit(const Data&) {}
  void visit(const Print& node) { read(node.value); }
  void visit(const If& node) {
    for (const auto& [condition, body] : node.branches) {
      read(condition);
      walk(body);
    }
    walk(node.otherwise);
  }
  void visit(const For& node) {
    write(node.target);
    read(node.iterable);
    walk(node.body);
    walk(node.otherwise);
    read(node.condition);
  }
  void visit(const Set& node) {
    write(node.target);
    read(node.value);
  }
  void visit(const SetBlock& node) {
    write(node.target);
    read(node.filter);
    walk(node.body);
  }
  void visit(const FilterBlock& node) {
    walk(node.body);
    read(node.filter);
  }
  void visit(const With& node) {
    for (const auto& [target, value] : node.assignments) write(target);
    for (const auto& [target, value] : node.assignments) read(value);
    walk(node.body);
  }
  void visit(const MacroStatement& node) { macro(*node.macro); }
  void visit(const CallBlock& node) {
    read(node.call);
    macro(*node.caller);
  }
  void visit(const Generation& node) { macro(*node.body); }
  void visit(const Break&) {}
  void visit(const Continue&) {}

  const MentionReader& mentioned_;
  NameReader read_;
  int line_ = 0;
};

}  // namespace

void for_each_name(const ExpressionPtr& expression, UnknownFilters unknown,
                   const NameReader& read) {
  ExpressionNames(unknown, read).walk(expression);
}

void for_each_mention(const Block& block, const MentionReader& mentioned) {
  BlockMentions(mentioned).walk(block);
}

}  // namespace strata::jinja
