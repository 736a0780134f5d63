#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace strata::jinja {

// Jinja's expression grammar by recursive descent, loosest binding first: inline if, or, and, not,
// comparisons and in, + -, ~, * / // %, **, unary + -, then .name [key] (call), then |filter and
// `is` test.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, Heap& heap) : tokens_(tokens), heap_(heap) {}

  ExpressionPtr parse_expression();
  ExpressionPtr parse_without_inline_if() { return parse_or(); }
  // Comma-separated expressions are a tuple. `end_name` (may be empty) also ends one.
  ExpressionPtr parse_tuple(bool inline_if = true, std::string_view end_name = {});
  // A chain of filters over `value`; a null value stands for the text of a block. `begun`: the
  // first filter has no `|` in front.
  ExpressionPtr parse_filters(ExpressionPtr value, bool begun);
  // a, b, ns.c: what stands left of `=` and of `in`.
  Target parse_target(bool with_namespace, std::string_view end_name = {});
  Value string_constant(std::string text);

  const std::set<std::string>& names() const { return names_; }

  // Called before each statement: links of chains like a + b + c, which nest to the left without
  // recursion of the parser, are limited per expression.
  void begin_statement() { links_ = 0; }

  // Counts nesting for a scope; throws data_corrupt beyond the limit.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  template <typename Node>
  ExpressionPtr make(int line, Node node);
  void count_link();

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr value);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  CallArguments parse_call_arguments();
  bool at_tuple_end(std::string_view end_name) const;
  std::string parse_dotted_name();
  Target parse_single_target(bool with_namespace);

  TokenStream& tokens_;
  Heap& heap_;
  std::set<std::string> names_;
  int depth_ = 0;
  int links_ = 0;
};

}  // namespace strata::jinja
