#include "text/jinja/frames.h"

#include <string_view>
#include <unordered_set>

#include "text/jinja/names.h"
#include "text/jinja/token_stream.h"

namespace strata::jinja {
namespace {

// One scope while it is looked at. Its names are complete before the scopes inside are opened,
// because those ask what it knows.
class FrameResolver {
 public:
  explicit FrameResolver(const FrameResolver* outer)
      : outer_(outer), inside_loop_(outer != nullptr && outer->inside_loop_) {}

  void enter_loop() { inside_loop_ = true; }

  void declare(std::string_view name) { mentioned_.insert(name); }
  void declare(const Target& target) {
    for (const Target& part : target.targets) declare(part);
    if (!target.unpacks) declare(target.name);
  }

  void read(const ExpressionPtr& value) {
    for_each_name(value, branches_ > 0 ? UnknownFilters::leave : UnknownFilters::refuse,
                  [&](std::string_view name) { read(name); });
  }

  // The block's own level, then the scopes inside it.
  void resolve(Block& block, Frame& frame) {
    look_at(block);
    frame.unset = std::move(unset_);
    resolve_inner(block);
  }

 private:
  bool knows(std::string_view name) const {
    for (const FrameResolver* scope = this; scope != nullptr; scope = scope->outer_) {
      if (scope->mentioned_.count(name) != 0) return true;
    }
    return false;
  }
  void read(std::string_view name) {
    if (!knows(name)) mentioned_.insert(name);
  }
  void write(std::string_view name) {
    if (mentioned_.count(name) != 0) return;
    if (branches_ == 0 && !knows(name)) unset_.emplace_back(name);
    mentioned_.insert(name);
  }
  void write(const Target& target) {
    for (const Target& part : target.targets) write(part);
    if (target.unpacks) return;
    refuse_loop(target);
    target.attribute.empty() ? write(target.name) : read(target.name);
  }

  // jinja2 keeps this name for itself wherever a loop is around.
  void refuse_loop(const Target& target) const {
    if (inside_loop_ && target.name == "loop" && target.attribute.empty()) {
      TokenStream::fail_at(line_, "cannot assign to 'loop' inside a loop");
    }
  }

  void refuse_loop_in(const Target& target) const {
    for (const Target& part : target.targets) refuse_loop_in(part);
    if (!target.unpacks) refuse_loop(target);
  }

  void look_at(const Block& block) {
    for (const Statement& statement : block) {
      line_ = statement.line;
      std::visit([&](const auto& node) { look(node); }, statement.node);
    }
  }
  void look(const Data&) {}
  void look(const Print& node) { read(node.value); }
  void look(const If& node) {
    ++branches_;
    for (const auto& [condition, body] : node.branches) {
      read(condition);
      look_at(body);
    }
    look_at(node.otherwise);
    --branches_;
  }
  void look(const For& node) { read(node.iterable); }
  void look(const Set& node) {
    read(node.value);
    write(node.target);
  }
  void look(const SetBlock& node) { write(node.target); }
  void look(const FilterBlock& node) { read(node.filter); }
  void look(const With& node) {
    for (const auto& [target, value] : node.assignments) read(value);
  }
  void look(const MacroStatement& node) { write(node.macro->name); }
  void look(const CallBlock& node) { read(node.call); }
  void look(const Generation&) {}
  void look(const Break&) {}
  void look(const Continue&) {}

  void resolve_inner(Block& block) {
    for (Statement& statement : block) {
      line_ = statement.line;
      std::visit([&](auto& node) { open(node); }, statement.node);
    }
  }
  template <typename Node>
  void open(Node&) {}  // has no scope of its own
  void open(If& node) {
    for (auto& [condition, body] : node.branches) resolve_inner(body);
    resolve_inner(node.otherwise);
  }
  void open(For& node) {
    FrameResolver test(this);
    test.declare(node.target);
    test.read(node.condition);
    FrameResolver body(this);
    body.enter_loop();
    body.line_ = line_;
    body.refuse_loop_in(node.target);
    body.declare("loop");
    body.declare(node.target);
    body.resolve(node.body, node.body_frame);
    FrameResolver otherwise(this);
    otherwise.enter_loop();
    otherwise.resolve(node.otherwise, node.otherwise_frame);
  }
  void open(SetBlock& node) {
    FrameResolver inner(this);
    inner.resolve(node.body, node.frame);
    inner.read(node.filter);
  }
  void open(FilterBlock& node) {
    FrameResolver inner(this);
    inner.resolve(node.body, node.frame);
    inner.read(node.filter);
  }
  void open(With& node) {
    FrameResolver inner(this);
    for (const auto& [target, value] : node.assignments) inner.declare(target);
    inner.resolve(node.body, node.frame);
  }
  void open(MacroStatement& node) { open(*node.macro); }
  void open(CallBlock& node) { open(*node.caller); }
  void open(Generation& node) { open(*node.body); }
  void open(MacroDefinition& macro) {
    find_special_names(macro);
    FrameResolver inner(this);
    for (const Parameter& parameter : macro.parameters) inner.declare(parameter.name);
    if (macro.takes_caller) inner.declare("caller");
    if (macro.takes_rest_named) inner.declare("kwargs");
    if (macro.takes_rest) inner.declare("varargs");
    for (const Parameter& parameter : macro.parameters) inner.read(parameter.fallback);
    inner.resolve(macro.body, macro.frame);
  }

  // caller, kwargs and varargs are parameters of a macro that reads them before it sets them.
  static void find_special_names(MacroDefinition& macro) {
    std::unordered_set<std::string_view> seen;
    for_each_mention(macro.body, [&](std::string_view name, Mention mention, int) {
      if (name != "caller" && name != "kwargs" && name != "varargs") return;
      if (!seen.insert(name).second || mention == Mention::written) return;
      (name == "caller"   ? macro.takes_caller
       : name == "kwargs" ? macro.takes_rest_named
                          : macro.takes_rest) = true;
    });
    for (const Parameter& parameter : macro.parameters) {
      if (parameter.name == "kwargs") macro.takes_rest_named = false;
      if (parameter.name == "varargs") macro.takes_rest = false;
      if (parameter.name == "caller" && macro.takes_caller && !parameter.fallback) {
        TokenStream::fail_at(macro.line, "the parameter 'caller' needs a default");
      }
    }
  }

  const FrameResolver* outer_;
  bool inside_loop_;
  std::unordered_set<std::string_view> mentioned_;
  std::vector<std::string> unset_;
  int line_ = 0;
  int branches_ = 0;  // `if`s around what is looked at, up to the scope
};

}  // namespace

void resolve_frames(Program& program) {
  FrameResolver(nullptr).resolve(program.body, program.frame);
}

}  // namespace strata::jinja
