#include "text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text/jinja/expression_parser.h"
#include "text/jinja/frames.h"

namespace strata::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program)
      : tokens_(std::move(tokens)), expressions_(tokens_, program.heap) {}

  Block run() {
    Block body = parse_block({});
    return body;
  }

  std::vector<std::string> names() const {
    return {expressions_.names().begin(), expressions_.names().end()};
  }

 private:
  // What surrounds a statement decides where break and continue may stand.
  struct LoopScope {
    explicit LoopScope(int& value, int inside) : depth(value), saved(value) { depth = inside; }
    ~LoopScope() { depth = saved; }
    int& depth;
    int saved;
  };

  template <typename Node>
  static void add(Block& block, int line, Node node) {
    Statement statement;
    statement.line = line;
    statement.node = std::move(node);
    block.push_back(std::move(statement));
  }

  bool at_one_of(std::initializer_list<std::string_view> names) const {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tokens_.is_name(name); });
  }

  // Statements until a tag of `ends`, which stays the current token; to the end if there are none.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const ExpressionParser::Nesting nesting(expressions_);
    Block block;
    while (!tokens_.is(TokenType::end)) {
      const int line = tokens_.current().line;
      expressions_.begin_statement();
      if (tokens_.is(TokenType::data)) {
        add(block, line, Data{expressions_.string_constant(tokens_.take().text)});
      } else if (tokens_.is(TokenType::variable_begin)) {
        tokens_.take();
        add(block, line, Print{expressions_.parse_tuple()});
        tokens_.expect(TokenType::variable_end);
      } else {
        tokens_.expect(TokenType::block_begin);
        if (at_one_of(ends)) return block;
        parse_statement(block, ends);
        tokens_.expect(TokenType::block_end);
      }
    }
    if (ends.size() != 0) {
      tokens_.fail_here(fmt::format("unexpected end of template, expected '{}'", *ends.begin()));
    }
    return block;
  }

  // The body of a tag that is open: its `%}`, statements, and one of `ends`, which stays current.
  Block parse_body(std::initializer_list<std::string_view> ends) {
    tokens_.skip_symbol(":");
    tokens_.expect(TokenType::block_end);
    return parse_block(ends);
  }
  Block parse_whole_body(std::string_view end) {
    Block block = parse_body({end});
    tokens_.take();
    return block;
  }

  void parse_statement(Block& block, std::initializer_list<std::string_view> ends) {
    if (!tokens_.is(TokenType::name)) tokens_.fail_expected("the name of a tag");
    const int line = tokens_.current().line;
    const std::string tag = tokens_.take().text;
    if (tag == "if") return add(block, line, parse_if());
    if (tag == "for") return add(block, line, parse_for());
    if (tag == "set") return parse_set(block, line);
    if (tag == "macro") return add(block, line, parse_macro());
    if (tag == "call") return add(block, line, parse_call());
    if (tag == "filter") return add(block, line, parse_filter_block());
    if (tag == "with") return add(block, line, parse_with());
    if (tag == "print") return parse_print(block, line);
    if (tag == "generation") {
      auto words = std::make_unique<MacroDefinition>();
      words->line = line;
      parse_macro_body(*words, "endgeneration");
      return add(block, line, Generation{std::move(words)});
    }
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) TokenStream::fail_at(line, fmt::format("'{}' outside loop", tag));
      return tag == "break" ? add(block, line, Break{}) : add(block, line, Continue{});
    }
    fail_tag(tag, line, ends);
  }

  [[noreturn]] static void fail_tag(std::string_view tag, int line,
                                    std::initializer_list<std::string_view> ends) {
    const bool misplaced = tag.substr(0, 3) == "end" || tag == "else" || tag == "elif";
    if (misplaced) {
      TokenStream::fail_at(line, ends.size() == 0 ? fmt::format("unexpected '{}'", tag)
                                                  : fmt::format("unexpected '{}', expected '{}'",
                                                                tag, *ends.begin()));
    }
    fail(ErrorCode::unsupported, "chat template: line {}: the tag '{}'", line, tag);
  }

  If parse_if() {
    If node;
    while (true) {
      ExpressionPtr condition = expressions_.parse_tuple(false);
      Block body = parse_body({"endif", "elif", "else"});
      node.branches.emplace_back(std::move(condition), std::move(body));
      const std::string tag = tokens_.take().text;
      if (tag == "elif") continue;
      if (tag == "else") node.otherwise = parse_whole_body("endif");
      break;
    }
    return node;
  }

  For parse_for() {
    For node;
    node.target = expressions_.parse_target(false, "in");
    tokens_.expect_name("in");
    node.iterable = expressions_.parse_tuple(false, "recursive");
    if (tokens_.skip_name("if")) node.condition = expressions_.parse_expression();
    node.recursive = tokens_.skip_name("recursive");
    {
      const LoopScope inside(loop_depth_, loop_depth_ + 1);
      node.body = parse_body({"endfor", "else"});
    }
    if (tokens_.take().text == "else") {
      // A recursive loop is a function of its own to jinja2: no way out to the loop around it.
      const LoopScope around(loop_depth_, node.recursive ? 0 : loop_depth_);
      node.otherwise = parse_whole_body("endfor");
    }
    return node;
  }

  void parse_set(Block& block, int line) {
    Target target = expressions_.parse_target(true);
    if (tokens_.skip_symbol("=")) {
      return add(block, line, Set{std::move(target), expressions_.parse_tuple()});
    }
    ExpressionPtr filter = expressions_.parse_filters(nullptr, false);
    Block body = parse_whole_body("endset");
    add(block, line, SetBlock{std::move(target), std::move(filter), std::move(body), {}});
  }

  std::vector<Parameter> parse_signature() {
    std::vector<Parameter> parameters;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      if (!parameters.empty()) tokens_.expect_symbol(",");
      Parameter parameter;
      parameter.name = tokens_.expect_any_name();
      for (const Parameter& other : parameters) {
        if (other.name != parameter.name) continue;
        tokens_.fail_here(fmt::format("duplicate argument '{}'", parameter.name));
      }
      if (tokens_.skip_symbol("=")) {
        parameter.fallback = expressions_.parse_expression();
      } else if (!parameters.empty() && parameters.back().fallback) {
        tokens_.fail_here("non-default argument follows default argument");
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_symbol(")");
    return parameters;
  }

  void parse_macro_body(MacroDefinition& macro, std::string_view end) {
    const LoopScope outside(loop_depth_, 0);
    macro.body = parse_whole_body(end);
  }

  MacroStatement parse_macro() {
    auto macro = std::make_unique<MacroDefinition>();
    macro->line = tokens_.current().line;
    macro->name = tokens_.expect_any_name();
    macro->parameters = parse_signature();
    parse_macro_body(*macro, "endmacro");
    return MacroStatement{std::move(macro)};
  }

  CallBlock parse_call() {
    auto caller = std::make_unique<MacroDefinition>();
    caller->line = tokens_.current().line;
    if (tokens_.is_symbol("(")) caller->parameters = parse_signature();
    ExpressionPtr call = expressions_.parse_expression();
    if (!std::holds_alternative<Call>(call->node)) tokens_.fail_here("expected call");
    parse_macro_body(*caller, "endcall");
    return CallBlock{std::move(caller), std::move(call)};
  }

  FilterBlock parse_filter_block() {
    FilterBlock node;
    node.filter = expressions_.parse_filters(nullptr, true);
    node.body = parse_whole_body("endfilter");
    return node;
  }

  With parse_with() {
    With node;
    while (!tokens_.is(TokenType::block_end)) {
      if (!node.assignments.empty()) tokens_.expect_symbol(",");
      Target target = expressions_.parse_target(false);
      tokens_.expect_symbol("=");
      node.assignments.emplace_back(std::move(target), expressions_.parse_expression());
    }
    node.body = parse_whole_body("endwith");
    return node;
  }

  void parse_print(Block& block, int line) {
    bool first = true;
    while (!tokens_.is(TokenType::block_end)) {
      if (!first) tokens_.expect_symbol(",");
      first = false;
      add(block, line, Print{expressions_.parse_expression()});
    }
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;
};

}  // namespace

Program parse_template(std::string_view source) {
  Program program;
  Parser parser(tokenize_template(source), program);
  program.body = parser.run();
  program.names = parser.names();
  resolve_frames(program);
  return program;
}

}  // namespace strata::jinja
