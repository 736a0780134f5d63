#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"

namespace strata::jinja {
namespace {

// Digits with single underscores between them, as Python reads them; nullopt if it is no number.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto alnum = [&](size_t j) {
      return j < text.size() && std::isalnum(static_cast<unsigned char>(text[j])) != 0;
    };
    if (i == 0 || !alnum(i - 1) || !alnum(i + 1)) return std::nullopt;
  }
  return out;
}

std::string stripped(std::string_view text) {
  return strip(MarkedText(std::string(text), Origin::user), Side::both, nullptr).bytes();
}

// int(text, base).
std::optional<int64_t> parse_integer(std::string_view source, int64_t base) {
  const auto clean = without_underscores(stripped(source));
  if (!clean || clean->empty()) return std::nullopt;
  std::string_view text = *clean;
  const bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  const auto prefix_base = [&]() -> int64_t {
    if (text.size() < 2 || text[0] != '0') return 0;
    const char mark = static_cast<char>(text[1] | 0x20);
    return mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  }();
  if (prefix_base != 0 && (base == 0 || base == prefix_base)) {
    base = prefix_base;
    text.remove_prefix(2);
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != text.npos) {
      return std::nullopt;
    }
    base = 10;
  }
  if (base < 2 || base > 36 || text.empty()) return std::nullopt;
  int64_t value = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
      fail_render("an integer needs more than 64 bits");
    }
  }
  return value;
}

// float(text).
std::optional<double> parse_real(std::string_view source) {
  const auto clean = without_underscores(stripped(source));
  if (!clean || clean->empty()) return std::nullopt;
  const std::string& text = *clean;
  // strtod also reads hexadecimal and nan(...), which Python does not.
  if (text.find_first_of("xXpP(") != text.npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
}

// int(value) of a float; nullopt where Python raises ValueError or OverflowError.
std::optional<int64_t> truncate_real(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) >= 9.2233720368547758e18) fail_render("an integer needs more than 64 bits");
  return static_cast<int64_t>(value);
}

double round_half_even(double value) {
  const double rounded = std::nearbyint(value);
  return rounded;
}

// round(value, digits) of Python: correctly rounded in decimal.
double round_digits(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits <= 0) {
    if (digits == 0) return round_half_even(value);
    const double power = std::pow(10.0, static_cast<double>(-digits));
    return round_half_even(value / power) * power;
  }
  // printf rounds the exact binary value; half-way cases cannot occur beyond the binary's digits.
  return std::strtod(fmt::format("{:.{}f}", value, static_cast<int>(digits)).c_str(), nullptr);
}

}  // namespace

Value filter_int(Runtime& runtime, const Bound& a) {
  const Value fallback = a.has(1) ? a[1] : int_value(0);
  const int64_t base = a.has(2) ? integer_argument(a[2], "int") : 10;
  const Value& value = a[0];
  require_defined(value);
  runtime.charge(1);
  if (value.is_integral()) return int_value(value.as_integer(), value.origin);
  if (value.is(Kind::real)) {
    if (std::isinf(value.real)) fail_render("cannot convert float infinity to integer");
    const auto truncated = truncate_real(value.real);
    return truncated ? int_value(*truncated, value.origin) : fallback;
  }
  if (!value.is(Kind::string)) return fallback;
  const std::string& text = value.text().bytes();
  if (const auto parsed = parse_integer(text, base)) return int_value(*parsed, value.origin);
  const auto real = parse_real(text);
  const auto truncated = real ? truncate_real(*real) : std::nullopt;
  return truncated ? int_value(*truncated, value.origin) : fallback;
}

Value filter_float(Runtime&, const Bound& a) {
  const Value fallback = a.has(1) ? a[1] : real_value(0.0);
  require_defined(a[0]);
  if (a[0].is_number()) return real_value(a[0].as_real(), a[0].origin);
  if (!a[0].is(Kind::string)) return fallback;
  const auto real = parse_real(a[0].text().bytes());
  return real ? real_value(*real, a[0].origin) : fallback;
}

Value filter_abs(Runtime&, const Bound& a) {
  require_defined(a[0]);
  if (a[0].is(Kind::real)) return real_value(std::fabs(a[0].real), a[0].origin);
  if (!a[0].is_integral()) fail_render("bad operand type for abs(): '{}'", type_name(a[0]));
  return apply_sign(a[0], a[0].as_integer() < 0);
}

Value filter_round(Runtime& runtime, const Bound& a) {
  const int64_t precision = a.has(1) ? integer_argument(a[1], "round") : 0;
  const std::string method = a.has(2) ? text_argument(a[2], "round").bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail_render("method must be common, ceil or floor");
  }
  require_defined(a[0]);
  if (!a[0].is_number()) {
    fail_render("type {} doesn't define __round__ method", type_name(a[0]));
  }
  if (method == "common") {
    if (a[0].is(Kind::real)) return real_value(round_digits(a[0].real, precision), a[0].origin);
    if (precision >= 0) return int_value(a[0].as_integer(), a[0].origin);
    if (precision < -18) return int_value(0, a[0].origin);
    // To tens, hundreds...: half to even on integers.
    int64_t unit = 1;
    for (int64_t i = 0; i < -precision; ++i) unit *= 10;
    const int64_t value = a[0].as_integer();
    int64_t quotient = value / unit, rest = value % unit;
    if (rest < 0) {
      rest += unit;
      --quotient;
    }
    if (rest > unit - rest || (rest == unit - rest && quotient % 2 != 0)) ++quotient;
    return apply_binary(runtime, BinaryOperator::multiply, int_value(quotient, a[0].origin),
                        int_value(unit));
  }
  const Value power =
      apply_binary(runtime, BinaryOperator::power, int_value(10), int_value(precision));
  const Value scaled = apply_binary(runtime, BinaryOperator::multiply, a[0], power);
  Value whole = scaled;
  if (scaled.is(Kind::real)) {
    const auto integer =
        truncate_real(method == "ceil" ? std::ceil(scaled.real) : std::floor(scaled.real));
    if (!integer) fail_render("cannot convert float to integer");
    whole = int_value(*integer, scaled.origin);
  }
  return apply_binary(runtime, BinaryOperator::divide, whole, power);
}

Value filter_default(Runtime& runtime, const Bound& a) {
  const bool also_false = a.has(2) && truthy(a[2]);
  if (!a[0].is(Kind::undefined) && !(also_false && !truthy(a[0]))) return a[0];
  return a.has(1) ? a[1] : runtime.string({}, Origin::from_template);
}

Value filter_attr(Runtime& runtime, const Bound& a) {
  require_defined(a[0]);
  const std::string& name = text_argument(a[1], "attr").bytes();
  const Value found = find_attribute(runtime, a[0], name);
  if (!found.is(Kind::absent)) return found;
  return runtime.undefined(fmt::format("'{} object' has no attribute '{}'", type_name(a[0]), name));
}

Value filter_length(Runtime&, const Bound& a) { return int_value(length(a[0]), a[0].origin); }

}  // namespace strata::jinja
