#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

std::string sign_of(bool negative, char style) {
  if (negative) return "-";
  return style == '+' ? "+" : style == ' ' ? " " : "";
}

std::string with_groups(std::string digits, char mark, size_t size) {
  if (mark == '\0') return digits;
  for (auto p = static_cast<std::ptrdiff_t>(digits.size() - size); p > 0;
       p -= static_cast<std::ptrdiff_t>(size)) {
    digits.insert(static_cast<size_t>(p), 1, mark);
  }
  return digits;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr int64_t kMaxWidth = 1'000'000;
constexpr int64_t kMaxPrecision = 1000;

// One "%..." of a printf-style format.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime),
        format_(format.text().bytes()),
        values_(values),
        origin_(mix(format.origin, deep_origin(runtime, values))) {}

  Value run() {
    while (position_ < format_.size()) {
      const char c = format_[position_++];
      if (c == '%') {
        conversion();
      } else {
        out_ += c;
      }
    }
    const bool all_used = values_.is(Kind::tuple) ? used_ == values_.items().size()
                                                  : used_ > 0 || is_mapping(values_);
    if (!all_used) fail_render("not all arguments converted during string formatting");
    return runtime_.string(std::move(out_), origin_);
  }

 private:
  // What Python's % takes for a mapping: it need not be used up.
  static bool is_mapping(const Value& value) {
    return value.is(Kind::dict) || value.is(Kind::list) || value.is(Kind::range) ||
           value.is(Kind::undefined);
  }

  char peek() const { return position_ < format_.size() ? format_[position_] : '\0'; }

  Value next_value() {
    if (values_.is(Kind::tuple)) {
      if (used_ >= values_.items().size()) fail_render("not enough arguments for format string");
      return values_.items()[used_++];
    }
    if (used_++ > 0) fail_render("not enough arguments for format string");
    return values_;
  }

  Value named_value() {
    const size_t end = format_.find(')', position_);
    if (end == format_.npos) fail_render("incomplete format key");
    if (!values_.is(Kind::dict)) fail_render("format requires a mapping");
    const std::string_view name = format_.substr(position_, end - position_);
    const Value* found = values_.dict().find(name);
    if (found == nullptr) fail_render("{}", quote(name));
    position_ = end + 1;
    used_ = 1;
    return *found;
  }

  int64_t number_or_star(int64_t limit) {
    if (peek() == '*') {
      ++position_;
      return std::clamp(integer_argument(next_value(), "* wants int"), -kMaxWidth - 1,
                        kMaxWidth + 1);
    }
    int64_t number = 0;
    while (is_digit(peek())) {
      number = std::min<int64_t>(number * 10 + (format_[position_++] - '0'), limit + 1);
    }
    return number;
  }

  void conversion() {
    FormatSpec spec;
    Value value = absent_value();
    if (peek() == '(') {
      ++position_;
      value = named_value();
    }
    bool left = false, zero = false;
    for (bool more = true; more;) {
      switch (peek()) {
        case '-':
          left = true;
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          spec.sign = spec.sign == '+' ? '+' : ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          zero = true;
          break;
        default:
          more = false;
      }
      if (more) ++position_;
    }
    spec.width = number_or_star(kMaxWidth);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++position_;
      spec.precision = std::max<int64_t>(number_or_star(kMaxPrecision), 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++position_;
    if (position_ >= format_.size()) fail_render("incomplete format");
    spec.type = format_[position_++];
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    if (std::string_view("diouxXeEfFgGcrsa").find(spec.type) == std::string_view::npos) {
      fail_render("unsupported format character '{}'", spec.type);
    }
    if (value.is(Kind::absent)) value = next_value();
    const bool numeric = std::string_view("crsa").find(spec.type) == std::string_view::npos;
    spec.align = left ? '<' : zero && numeric ? '=' : '>';
    if (spec.align == '=') spec.fill = "0";
    out_ += pad_text(runtime_, convert(value, spec), spec);
    runtime_.charge_bytes(0);
  }

  std::string convert(const Value& value, const FormatSpec& spec) {
    switch (spec.type) {
      case 's':
        return cut(to_text(runtime_, value).bytes(), spec.precision);
      case 'r':
        return cut(repr(runtime_, value), spec.precision);
      case 'a':
        fail(ErrorCode::unsupported, "the format %a is not supported");
      case 'c':
        return character(value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(value, spec);
      default:
        break;
    }
    require_defined(value);
    if (!value.is_number()) fail_render("must be real number, not {}", type_name(value));
    return format_real(value.as_real(), spec);
  }

  std::string cut(const std::string& text, int64_t precision) const {
    if (precision < 0) return text;
    const std::vector<size_t> offsets = code_point_offsets(text);
    const auto keep = std::min(static_cast<size_t>(precision), offsets.size() - 1);
    return text.substr(0, offsets[keep]);
  }

  std::string character(const Value& value) const {
    if (value.is(Kind::string) && length(value) == 1) return value.text().bytes();
    if (!value.is_integral()) fail_render("%c requires int or char");
    const int64_t c = value.as_integer();
    if (c < 0 || c > 0x10FFFF) fail_render("%c arg not in range(0x110000)");
    if (c >= 0xD800 && c < 0xE000) fail_render("%c arg is a lone surrogate");
    std::string out;
    append_utf8(out, static_cast<char32_t>(c));
    return out;
  }

  std::string integer(const Value& value, FormatSpec spec) const {
    require_defined(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    int64_t number = 0;
    if (value.is_integral()) {
      number = value.as_integer();
    } else if (value.is(Kind::real) && decimal && std::fabs(value.real) < 9.2e18) {
      number = static_cast<int64_t>(value.real);
    } else {
      fail_render("%{} format: {} is required, not {}", spec.type,
                  decimal ? "a real number" : "an integer", type_name(value));
    }
    if (decimal) spec.type = 'd';
    const int64_t digits = spec.precision;
    spec.precision = -1;
    std::string text = format_integer(number, spec);
    if (digits > 0) {
      const size_t sign = text.find_first_not_of("+- ");
      const auto have = static_cast<int64_t>(text.size() - sign);
      if (have < digits) text.insert(sign, static_cast<size_t>(digits - have), '0');
    }
    return text;
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  Origin origin_;
  size_t position_ = 0;
  size_t used_ = 0;
  std::string out_;
};

}  // namespace

std::string format_integer(int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  const uint64_t magnitude =
      negative ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  std::string digits, prefix;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude), prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude), prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude), prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude), prefix = "0b";
      break;
    default:
      digits = fmt::format("{}", magnitude);
  }
  const size_t group =
      spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
  return sign_of(negative, spec.sign) + (spec.alternate ? prefix : "") +
         with_groups(std::move(digits), spec.group, group);
}

std::string format_real(double value, const FormatSpec& spec) {
  const double magnitude = std::fabs(value);
  const char type = spec.type == '\0' ? 'g' : spec.type;
  const bool percent = type == '%';
  const auto precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  if (precision > kMaxPrecision) fail_render("format precision too big");
  std::string body;
  if (std::isnan(value) || std::isinf(value)) {
    body = std::isnan(value) ? "nan" : "inf";
    if (type == 'E' || type == 'F' || type == 'G') body = to_upper(body);
  } else {
    switch (type) {
      case 'e':
        body = fmt::format("{:.{}e}", magnitude, precision);
        break;
      case 'E':
        body = fmt::format("{:.{}E}", magnitude, precision);
        break;
      case 'f':
      case 'F':
        body = fmt::format("{:.{}f}", magnitude, precision);
        break;
      case '%':
        body = fmt::format("{:.{}f}", magnitude * 100, precision);
        break;
      case 'G':
        body = fmt::format("{:.{}G}", magnitude, precision);
        break;
      default:
        body = fmt::format("{:.{}g}", magnitude, precision);
    }
    if (spec.group != '\0') {
      const size_t end = std::min(body.find('.'), body.find('e'));
      const size_t whole = end == body.npos ? body.size() : end;
      body = with_groups(body.substr(0, whole), spec.group, 3) + body.substr(whole);
    }
  }
  const bool negative = std::signbit(value) && !std::isnan(value);
  return sign_of(negative, spec.sign) + body + (percent ? "%" : "");
}

std::string pad_text(Runtime& runtime, std::string text, const FormatSpec& spec) {
  if (spec.width > kMaxWidth) fail_render("format width {} is too large", spec.width);
  const int64_t pad = spec.width - count_code_points(text);
  if (pad <= 0) return text;
  runtime.charge_bytes(static_cast<size_t>(pad) * spec.fill.size());
  const auto fill = [&](int64_t n) {
    std::string out;
    for (int64_t i = 0; i < n; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align) {
    case '<':
      return text + fill(pad);
    case '^':
      return fill(pad / 2) + text + fill(pad - pad / 2);
    case '=': {
      size_t sign = text.find_first_not_of("+- ");
      if (sign == text.npos) sign = text.size();
      if (spec.alternate && text.size() > sign + 1 && text[sign] == '0') sign += 2;
      return text.substr(0, sign) + fill(pad) + text.substr(sign);
    }
    default:
      return fill(pad) + text;
  }
}

Value format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return PercentFormatter(runtime, format, values).run();
}

}  // namespace strata::jinja
