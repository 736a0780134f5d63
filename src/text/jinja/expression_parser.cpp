#include "text/jinja/expression_parser.h"

#include <array>
#include <optional>

namespace strata::jinja {
namespace {

// Nested expressions and statements, and operators of one expression. Real templates stay below
// 30 and 100; the limits keep the stack of parser and destructors small.
constexpr int kMaxDepth = 100;
constexpr int kMaxLinks = 1000;

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

std::optional<Comparator> comparator_of(const Token& token) {
  if (token.type != TokenType::symbol) return std::nullopt;
  if (token.text == "==") return Comparator::eq;
  if (token.text == "!=") return Comparator::ne;
  if (token.text == "<") return Comparator::lt;
  if (token.text == "<=") return Comparator::le;
  if (token.text == ">") return Comparator::gt;
  if (token.text == ">=") return Comparator::ge;
  return std::nullopt;
}

std::optional<BinaryOperator> product_operator(const Token& token) {
  if (token.type != TokenType::symbol) return std::nullopt;
  if (token.text == "*") return BinaryOperator::multiply;
  if (token.text == "/") return BinaryOperator::divide;
  if (token.text == "//") return BinaryOperator::floor_divide;
  if (token.text == "%") return BinaryOperator::modulo;
  return std::nullopt;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxDepth) {
    --parser_.depth_;
    parser_.tokens_.fail_here(fmt::format("nested deeper than {} levels", kMaxDepth));
  }
}

template <typename Node>
ExpressionPtr ExpressionParser::make(int line, Node node) {
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->node = std::move(node);
  return expression;
}

void ExpressionParser::count_link() {
  if (++links_ > kMaxLinks) {
    tokens_.fail_here(fmt::format("an expression with more than {} operators", kMaxLinks));
  }
}

Value ExpressionParser::string_constant(std::string text) {
  Value value;
  value.kind = Kind::string;
  value.object = heap_.make<StringObject>(MarkedText(std::move(text), Origin::from_template));
  return value;
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  const int line = tokens_.current().line;
  ExpressionPtr then = parse_or();
  for (; tokens_.skip_name("if"); count_link()) {
    Conditional node;
    node.condition = parse_or();
    if (tokens_.skip_name("else")) node.otherwise = parse_expression();
    node.then = std::move(then);
    then = make(line, std::move(node));
  }
  return then;
}

ExpressionPtr ExpressionParser::parse_or() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_and();
  for (; tokens_.skip_name("or"); count_link()) {
    left = make(line, Logical{std::move(left), parse_and(), false});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_not();
  for (; tokens_.skip_name("and"); count_link()) {
    left = make(line, Logical{std::move(left), parse_not(), true});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  const int line = tokens_.take().line;
  return make(line, Not{parse_not()});
}

ExpressionPtr ExpressionParser::parse_compare() {
  const int line = tokens_.current().line;
  ExpressionPtr first = parse_sum();
  Compare node;
  while (true) {
    Comparator which = Comparator::in;
    if (const auto symbol = comparator_of(tokens_.current())) {
      tokens_.take();
      which = *symbol;
    } else if (tokens_.is_name("not") && tokens_.look().type == TokenType::name &&
               tokens_.look().text == "in") {
      tokens_.take();
      tokens_.take();
      which = Comparator::not_in;
    } else if (!tokens_.skip_name("in")) {
      break;
    }
    node.rest.emplace_back(which, parse_sum());
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::parse_sum() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_concat();
  for (; tokens_.is_symbol("+") || tokens_.is_symbol("-"); count_link()) {
    const bool add = tokens_.take().text == "+";
    left = make(line, Binary{add ? BinaryOperator::add : BinaryOperator::subtract, std::move(left),
                             parse_concat()});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  const int line = tokens_.current().line;
  ExpressionPtr first = parse_product();
  if (!tokens_.is_symbol("~")) return first;
  Concat node;
  node.parts.push_back(std::move(first));
  while (tokens_.skip_symbol("~")) node.parts.push_back(parse_product());
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::parse_product() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_power();
  while (const auto which = product_operator(tokens_.current())) {
    tokens_.take();
    left = make(line, Binary{*which, std::move(left), parse_power()});
    count_link();
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_unary(true);
  for (; tokens_.skip_symbol("**"); count_link()) {
    left = make(line, Binary{BinaryOperator::power, std::move(left), parse_unary(true)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  const int line = tokens_.current().line;
  ExpressionPtr value;
  if (tokens_.skip_symbol("-")) {
    value = make(line, Sign{parse_unary(false), true});
  } else if (tokens_.skip_symbol("+")) {
    value = make(line, Sign{parse_unary(false), false});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.type) {
    case TokenType::name: {
      const std::string name = tokens_.take().text;
      if (name == "true" || name == "True") return make(line, Constant{bool_value(true)});
      if (name == "false" || name == "False") return make(line, Constant{bool_value(false)});
      if (name == "none" || name == "None") return make(line, Constant{none_value()});
      names_.insert(name);
      return make(line, Name{name});
    }
    case TokenType::string: {
      std::string text = tokens_.take().text;
      while (tokens_.is(TokenType::string)) text += tokens_.take().text;
      return make(line, Constant{string_constant(std::move(text))});
    }
    case TokenType::integer:
      return make(line, Constant{int_value(tokens_.take().integer)});
    case TokenType::real:
      return make(line, Constant{real_value(tokens_.take().real)});
    case TokenType::symbol:
      if (token.text == "(") {
        tokens_.take();
        if (tokens_.skip_symbol(")")) return make(line, SequenceLiteral{{}, true});
        ExpressionPtr value = parse_tuple();
        tokens_.expect_symbol(")");
        return value;
      }
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      [[fallthrough]];
    default:
      tokens_.fail_here(fmt::format("unexpected {}", tokens_.describe_current()));
  }
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  return tokens_.is(TokenType::variable_end) || tokens_.is(TokenType::block_end) ||
         tokens_.is_symbol(")") || (!end_name.empty() && tokens_.is_name(end_name));
}

ExpressionPtr ExpressionParser::parse_tuple(bool inline_if, std::string_view end_name) {
  const int line = tokens_.current().line;
  SequenceLiteral tuple{{}, true};
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) tokens_.expect_symbol(",");
    if (at_tuple_end(end_name)) break;
    tuple.items.push_back(inline_if ? parse_expression() : parse_or());
    if (!tokens_.is_symbol(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return make(line, std::move(tuple));
  if (tuple.items.empty()) tokens_.fail_expected("an expression");
  return std::move(tuple.items.front());
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.take().line;
  SequenceLiteral list;
  while (!tokens_.is_symbol("]")) {
    if (!list.items.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("]")) break;
    list.items.push_back(parse_expression());
  }
  tokens_.expect_symbol("]");
  return make(line, std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.take().line;
  DictLiteral dict;
  while (!tokens_.is_symbol("}")) {
    if (!dict.entries.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("}")) break;
    ExpressionPtr key = parse_expression();
    tokens_.expect_symbol(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  tokens_.expect_symbol("}");
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  for (;; count_link()) {
    if (tokens_.is_symbol(".") || tokens_.is_symbol("[")) {
      value = parse_subscript(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      const int line = tokens_.current().line;
      value = make(line, Call{std::move(value), parse_call_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.current().line;
  if (tokens_.skip_symbol(".")) {
    if (tokens_.is(TokenType::integer)) {
      const int64_t index = tokens_.take().integer;
      return make(line, Subscript{std::move(object), make(line, Constant{int_value(index)})});
    }
    if (!tokens_.is(TokenType::name)) tokens_.fail_expected("a name or number");
    return make(line, Attribute{std::move(object), tokens_.take().text});
  }
  tokens_.expect_symbol("[");
  const auto part = [&]() -> ExpressionPtr {
    if (tokens_.is_symbol(":") || tokens_.is_symbol("]") || tokens_.is_symbol(",")) return nullptr;
    return parse_expression();
  };
  Slice slice;
  slice.start = part();
  if (tokens_.skip_symbol(":")) {
    slice.stop = part();
    if (tokens_.skip_symbol(":")) slice.step = part();
    tokens_.expect_symbol("]");
    slice.object = std::move(object);
    return make(line, std::move(slice));
  }
  if (!slice.start) tokens_.fail_expected("an expression");
  if (!tokens_.is_symbol(",")) {
    tokens_.expect_symbol("]");
    return make(line, Subscript{std::move(object), std::move(slice.start)});
  }
  SequenceLiteral key{{}, true};
  key.items.push_back(std::move(slice.start));
  while (tokens_.skip_symbol(",")) key.items.push_back(parse_expression());
  tokens_.expect_symbol("]");
  return make(line, Subscript{std::move(object), make(line, std::move(key))});
}

CallArguments ExpressionParser::parse_call_arguments() {
  tokens_.expect_symbol("(");
  CallArguments arguments;
  const auto ensure = [&](bool valid) {
    if (!valid) tokens_.fail_here("invalid syntax for function call expression");
  };
  bool first = true;
  while (!tokens_.is_symbol(")")) {
    if (!first) {
      tokens_.expect_symbol(",");
      if (tokens_.is_symbol(")")) break;
    }
    first = false;
    if (tokens_.skip_symbol("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = parse_expression();
    } else if (tokens_.skip_symbol("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = parse_expression();
    } else if (tokens_.is(TokenType::name) && tokens_.look().type == TokenType::symbol &&
               tokens_.look().text == "=") {
      ensure(!arguments.double_star);
      std::string name = tokens_.take().text;
      tokens_.take();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  tokens_.expect_symbol(")");
  return arguments;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = tokens_.expect_any_name();
  while (tokens_.skip_symbol(".")) name += "." + tokens_.expect_any_name();
  return name;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr value, bool begun) {
  for (; begun || tokens_.is_symbol("|"); count_link()) {
    if (!begun) tokens_.take();
    begun = false;
    const int line = tokens_.current().line;
    Filter node;
    node.name = parse_dotted_name();
    node.filter = find_filter(node.name);
    if (tokens_.is_symbol("(")) node.arguments = parse_call_arguments();
    node.value = std::move(value);
    value = make(line, std::move(node));
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr value) {
  for (;; count_link()) {
    if (tokens_.is_symbol("|")) {
      value = parse_filters(std::move(value), false);
    } else if (tokens_.is_name("is")) {
      value = parse_test(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      const int line = tokens_.current().line;
      value = make(line, Call{std::move(value), parse_call_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr value) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  Test node;
  node.name = parse_dotted_name();
  node.test = find_test(node.name);
  const bool starts_operand = tokens_.is(TokenType::name) || tokens_.is(TokenType::string) ||
                              tokens_.is(TokenType::integer) || tokens_.is(TokenType::real) ||
                              tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("(")) {
    node.arguments = parse_call_arguments();
  } else if (starts_operand && !tokens_.is_name("else") && !tokens_.is_name("or") &&
             !tokens_.is_name("and")) {
    if (tokens_.is_name("is")) tokens_.fail_here("You cannot chain multiple tests with is");
    node.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  node.value = std::move(value);
  ExpressionPtr test = make(line, std::move(node));
  return negated ? make(line, Not{std::move(test)}) : std::move(test);
}

Target ExpressionParser::parse_single_target(bool with_namespace) {
  const Nesting nesting(*this);
  Target target;
  if (tokens_.skip_symbol("(")) {
    target = parse_target(with_namespace);
    tokens_.expect_symbol(")");
    return target;
  }
  if (!tokens_.is(TokenType::name)) {
    tokens_.fail_here(fmt::format("can't assign to {}", tokens_.describe_current()));
  }
  target.name = tokens_.take().text;
  if (with_namespace && tokens_.skip_symbol(".")) {
    target.attribute = tokens_.expect_any_name();
    names_.insert(target.name);
  } else if (is_constant_name(target.name)) {
    tokens_.fail_here(fmt::format("can't assign to '{}'", target.name));
  }
  return target;
}

Target ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
  Target all;
  all.unpacks = true;
  bool is_tuple = false;
  while (true) {
    if (!all.targets.empty()) tokens_.expect_symbol(",");
    if (at_tuple_end(end_name) || (is_tuple && tokens_.is_symbol("="))) break;
    all.targets.push_back(parse_single_target(with_namespace));
    if (!tokens_.is_symbol(",")) break;
    is_tuple = true;
  }
  if (all.targets.empty()) tokens_.fail_expected("a name to assign to");
  if (is_tuple) return all;
  Target single = std::move(all.targets.front());
  return single;
}

}  // namespace strata::jinja
