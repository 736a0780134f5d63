#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/lexer.h"

namespace strata::jinja {

// The parser's view of the tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = current();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const {
    return is(TokenType::name) && current().text == name;
  }
  bool is_symbol(std::string_view symbol) const {
    return is(TokenType::symbol) && current().text == symbol;
  }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
  bool skip_symbol(std::string_view symbol) { return is_symbol(symbol) && (take(), true); }

  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_expected(fmt::format("'{}'", symbol));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected(fmt::format("'{}'", name));
  }
  void expect(TokenType type) {
    if (!is(type)) fail_expected(describe(type));
    take();
  }
  std::string expect_any_name() {
    if (!is(TokenType::name)) fail_expected("a name");
    return take().text;
  }

  [[noreturn]] void fail_expected(std::string_view wanted) const {
    fail_here(fmt::format("expected {}, got {}", wanted, describe_current()));
  }
  [[noreturn]] void fail_here(std::string_view reason) const { fail_at(current().line, reason); }
  [[noreturn]] static void fail_at(int line, std::string_view reason) {
    fail(ErrorCode::data_corrupt, "chat template: line {}: {}", line, reason);
  }

  std::string describe_current() const {
    const Token& token = current();
    const bool has_text = token.type == TokenType::name || token.type == TokenType::symbol ||
                          token.type == TokenType::integer || token.type == TokenType::real;
    return has_text ? fmt::format("'{}'", token.text) : std::string(describe(token.type));
  }
  static std::string_view describe(TokenType type) {
    switch (type) {
      case TokenType::data:
        return "template text";
      case TokenType::block_begin:
        return "'{%'";
      case TokenType::block_end:
        return "'%}'";
      case TokenType::variable_begin:
        return "'{{'";
      case TokenType::variable_end:
        return "'}}'";
      case TokenType::name:
        return "a name";
      case TokenType::string:
        return "a string";
      case TokenType::integer:
      case TokenType::real:
        return "a number";
      case TokenType::symbol:
        return "an operator";
      case TokenType::end:
        return "the end of the template";
    }
    return "?";
  }

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace strata::jinja
