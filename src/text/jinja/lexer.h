#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::jinja {

enum class TokenType : uint8_t {
  data,  // text outside of tags, after whitespace control
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,  // unescaped
  integer,
  real,
  symbol,  // an operator or bracket; `text` is its spelling
  end,
};

struct Token {
  TokenType type = TokenType::end;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// Splits a template as jinja2's lexer does with trim_blocks and lstrip_blocks on: comments are
// gone, raw blocks are data, \r\n and \r are \n, one newline at the end of the template is dropped.
// Throws Error{data_corrupt} naming the line. The last token is `end`.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace strata::jinja
