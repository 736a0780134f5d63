#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) lex_data();
    push(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag : uint8_t { block, variable, comment, raw };

  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  bool at(std::string_view text) const { return rest().substr(0, text.size()) == text; }

  [[noreturn]] void fail_here(const std::string& reason) const {
    fail(ErrorCode::data_corrupt, "chat template: line {}: {}", line_, reason);
  }

  void push(TokenType type, std::string text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void advance(size_t bytes) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(position_),
                   source_.begin() + static_cast<std::ptrdiff_t>(position_ + bytes), '\n'));
    position_ += bytes;
    if (bytes > 0) line_starting_ = source_[position_ - 1] == '\n';
  }

  // Python's \s* from an offset on: how many bytes.
  size_t blanks_at(size_t offset) const {
    size_t end = offset;
    while (end < source_.size()) {
      const Utf8Step step = decode_utf8(std::string_view(source_).substr(end));
      if (!is_python_space(step.code_point)) break;
      end += static_cast<size_t>(step.length);
    }
    return end - offset;
  }

  void skip_blanks() { advance(blanks_at(position_)); }

  static size_t trailing_blanks(std::string_view text) {
    size_t end = text.size();
    while (end > 0) {
      size_t begin = end - 1;
      while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
      if (!is_python_space(decode_utf8(text.substr(begin)).code_point)) break;
      end = begin;
    }
    return text.size() - end;
  }

  // The length of "{%- raw -%}" at an offset, with the blanks that a `-%}` eats; 0 if it is none.
  size_t raw_begin_at(size_t offset) const {
    size_t p = offset + 2;
    if (p < source_.size() && (source_[p] == '-' || source_[p] == '+')) ++p;
    p += blanks_at(p);
    if (source_.compare(p, 3, "raw") != 0) return 0;
    p += 3;
    p += blanks_at(p);
    if (source_.compare(p, 3, "-%}") == 0) return p + 3 + blanks_at(p + 3) - offset;
    return source_.compare(p, 2, "%}") == 0 ? p + 2 - offset : 0;
  }

  // Text before a tag, after what `-` and lstrip_blocks take away.
  std::string_view strip_before_tag(std::string_view text, char sign, Tag tag) const {
    if (sign == '-') return text.substr(0, text.size() - trailing_blanks(text));
    if (sign == '+' || tag == Tag::variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == text.npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return text;
    const std::string_view last_line = text.substr(line_begin);
    const bool blank = !last_line.empty() && trailing_blanks(last_line) == last_line.size();
    return blank ? text.substr(0, line_begin) : text;
  }

  void lex_data() {
    size_t tag_at = position_;
    while (true) {
      tag_at = source_.find('{', tag_at);
      if (tag_at == source_.npos || tag_at + 1 >= source_.size()) {
        push(TokenType::data, std::string(rest()));
        position_ = source_.size();
        return;
      }
      const char next = source_[tag_at + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag_at;
    }
    const size_t raw_size = source_[tag_at + 1] == '%' ? raw_begin_at(tag_at) : 0;
    const Tag tag = raw_size > 0                 ? Tag::raw
                    : source_[tag_at + 1] == '%' ? Tag::block
                    : source_[tag_at + 1] == '{' ? Tag::variable
                                                 : Tag::comment;
    const char after = tag_at + 2 < source_.size() ? source_[tag_at + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    const std::string_view before = rest().substr(0, tag_at - position_);
    const std::string_view kept = strip_before_tag(before, sign, tag);
    if (!kept.empty()) push(TokenType::data, std::string(kept));
    advance(before.size());
    if (tag == Tag::raw) {
      advance(raw_size);
      return lex_raw();
    }
    const int tag_line = line_;
    advance(2 + (sign != '\0' ? 1 : 0));
    if (tag == Tag::comment) return lex_comment();
    push(tag == Tag::block ? TokenType::block_begin : TokenType::variable_begin, "");
    tokens_.back().line = tag_line;
    lex_code(tag == Tag::block);
  }

  // After the closing `%}` or `#}` at the position: `-` eats blanks, trim_blocks one newline.
  bool close_tag(std::string_view mark) {
    if (at("-" + std::string(mark))) {
      advance(1 + mark.size());
      skip_blanks();
      return true;
    }
    const bool keep_newline = at("+" + std::string(mark));
    if (!keep_newline && !at(mark)) return false;
    advance(mark.size() + (keep_newline ? 1 : 0));
    if (!keep_newline && at("\n")) advance(1);
    return true;
  }

  void lex_comment() {
    const size_t end = source_.find("#}", position_);
    if (end == source_.npos) fail_here("Missing end of comment tag");
    const bool has_sign = end > position_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - position_ - (has_sign ? 1 : 0));
    close_tag("#}");
  }

  void lex_raw() {
    const int raw_line = line_;
    for (size_t tag_at = source_.find("{%", position_); tag_at != source_.npos;
         tag_at = source_.find("{%", tag_at + 1)) {
      size_t p = tag_at + 2;
      const char sign =
          p < source_.size() && (source_[p] == '-' || source_[p] == '+') ? source_[p] : '\0';
      if (sign != '\0') ++p;
      p += blanks_at(p);
      if (source_.compare(p, 6, "endraw") != 0) continue;
      p += 6;
      p += blanks_at(p);
      const std::string_view tail = std::string_view(source_).substr(p);
      if (tail.substr(0, 2) != "%}" && tail.substr(0, 3) != "-%}" && tail.substr(0, 3) != "+%}") {
        continue;
      }
      const std::string_view before = rest().substr(0, tag_at - position_);
      const std::string_view kept = strip_before_tag(before, sign, Tag::raw);
      if (!kept.empty()) push(TokenType::data, std::string(kept));
      advance(p - position_);
      close_tag("%}");
      return;
    }
    line_ = raw_line;
    fail_here("Missing end of raw directive");
  }

  void lex_code(bool block) {
    std::string brackets;  // closing marks that are awaited
    while (true) {
      skip_blanks();
      if (position_ >= source_.size()) return;
      if (brackets.empty() && end_of_code(block)) return;
      if (lex_number() || lex_name() || lex_string()) continue;
      lex_symbol(brackets);
    }
  }

  bool end_of_code(bool block) {
    const TokenType type = block ? TokenType::block_end : TokenType::variable_end;
    const int end_line = line_;
    if (block) {
      if (!close_tag("%}")) return false;
    } else if (at("-}}")) {
      advance(3);
      skip_blanks();
    } else if (at("}}")) {
      advance(2);
    } else {
      return false;
    }
    push(type, "");
    tokens_.back().line = end_line;
    return true;
  }

  // Digits that may be parted by single underscores; the end, or `from` if there are none.
  size_t digits_end(size_t from) const {
    size_t end = from;
    while (end < source_.size() &&
           (is_digit(source_[end]) || (end > from && source_[end] == '_' &&
                                       end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
    return end;
  }

  std::string without_underscores(size_t begin, size_t end) const {
    std::string text = source_.substr(begin, end - begin);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    return text;
  }

  bool lex_number() {
    if (!is_digit(source_[position_])) return false;
    const size_t begin = position_;
    size_t end = digits_end(begin);
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    bool real = false;
    if (!after_dot) {
      const auto character = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
      size_t p = end;
      if (character(p) == '.' && is_digit(character(p + 1))) {
        p = digits_end(p + 1);
        end = p;
        real = true;
      }
      if (character(p) == 'e' || character(p) == 'E') {
        size_t e = p + 1;
        if (character(e) == '+' || character(e) == '-') ++e;
        if (is_digit(character(e))) {
          end = digits_end(e);
          real = true;
        }
      }
    }
    if (real) {
      const std::string text = without_underscores(begin, end);
      push(TokenType::real, text);
      tokens_.back().real = std::strtod(text.c_str(), nullptr);
      advance(end - position_);
      return true;
    }
    lex_integer(end);
    return true;
  }

  void lex_integer(size_t end) {
    const size_t begin = position_;
    int base = 10;
    if (source_[begin] == '0' && begin + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[begin + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const auto digit_of = [&](size_t i) {
        const char c = i < source_.size() ? source_[i] : '\0';
        const int value = is_digit(c)                              ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : 99;
        return value < base;
      };
      if (base != 10) {
        size_t p = begin + 2;
        while (digit_of(p) || (p < source_.size() && source_[p] == '_' && digit_of(p + 1))) ++p;
        if (p == begin + 2)
          base = 10;
        else
          end = p;
      }
      if (base == 10) {
        // A leading zero is a number of its own unless only zeros follow.
        size_t p = begin + 1;
        while (p < end && (source_[p] == '0' || source_[p] == '_')) ++p;
        end = p;
      }
    }
    std::string text = without_underscores(begin, end);
    const char* digits = text.c_str() + (base == 10 ? 0 : 2);
    Token token;
    const auto parsed = std::from_chars(digits, text.c_str() + text.size(), token.integer, base);
    if (parsed.ec != std::errc()) fail_here(fmt::format("{} needs more than 64 bits", text));
    push(TokenType::integer, text);
    tokens_.back().integer = token.integer;
    advance(end - position_);
  }

  bool lex_name() {
    size_t end = position_;
    while (end < source_.size()) {
      const Utf8Step step = decode_utf8(std::string_view(source_).substr(end));
      const bool fits = end == position_ ? is_identifier_start(step.code_point)
                                         : is_identifier_part(step.code_point);
      if (!fits) break;
      end += static_cast<size_t>(step.length);
    }
    if (end == position_) return false;
    push(TokenType::name, source_.substr(position_, end - position_));
    advance(end - position_);
    return true;
  }

  bool lex_string() {
    const char mark = source_[position_];
    if (mark != '\'' && mark != '"') return false;
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != mark) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here(fmt::format("unexpected char {}", quote_character()));
    const std::string_view body =
        std::string_view(source_).substr(position_ + 1, end - position_ - 1);
    push(TokenType::string, unescape_string(body, line_));
    advance(end + 1 - position_);
    return true;
  }

  std::string quote_character() const {
    const Utf8Step step = decode_utf8(rest());
    return fmt::format("'{}'", rest().substr(0, static_cast<size_t>(step.length)));
  }

  void lex_symbol(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> kSymbols = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* symbol =
        std::find_if(kSymbols.begin(), kSymbols.end(), [&](std::string_view s) { return at(s); });
    if (symbol == kSymbols.end()) fail_here(fmt::format("unexpected char {}", quote_character()));
    const char c = (*symbol)[0];
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail_here(fmt::format("unexpected '{}'", c));
      if (brackets.back() != c) {
        fail_here(fmt::format("unexpected '{}', expected '{}'", c, brackets.back()));
      }
      brackets.pop_back();
    }
    push(TokenType::symbol, std::string(*symbol));
    advance(symbol->size());
  }

  std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last token ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  if (!is_valid_utf8(source)) {
    fail(ErrorCode::data_corrupt, "chat template: the text is no well-formed UTF-8");
  }
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace strata::jinja
