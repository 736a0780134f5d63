#include <cmath>
#include <limits>

#include "text/jinja/format.h"
#include "text/jinja/operations.h"

// Python's operators on numbers, strings and lists. Integers have 64 bits: what Python would
// answer with a longer one is an error here.
namespace strata::jinja {
namespace {

std::string_view operator_text(BinaryOperator which) {
  switch (which) {
    case BinaryOperator::add:
      return "+";
    case BinaryOperator::subtract:
      return "-";
    case BinaryOperator::multiply:
      return "*";
    case BinaryOperator::divide:
      return "/";
    case BinaryOperator::floor_divide:
      return "//";
    case BinaryOperator::modulo:
      return "%";
    case BinaryOperator::power:
      return "** or pow()";
  }
  return "?";
}

bool is_exact_in_double(int64_t v) { return v >= -(int64_t{1} << 53) && v <= (int64_t{1} << 53); }

[[noreturn]] void fail_overflow() { fail_render("an integer needs more than 64 bits"); }

int64_t multiply_checked(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow();
  return product;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) {
    if (a == std::numeric_limits<int64_t>::min()) fail_overflow();
    return -a;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double floor_divide(double a, double b) {
  // As CPython: from the exact remainder, so that it agrees with the modulo.
  const double rest = floor_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value integer_power(int64_t base, int64_t exponent, Origin origin) {
  if (exponent < 0) {
    if (base == 0) fail_render("0.0 cannot be raised to a negative power");
    return real_value(std::pow(static_cast<double>(base), static_cast<double>(exponent)), origin);
  }
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) result = multiply_checked(result, base);
    exponent >>= 1;
    if (exponent > 0) base = multiply_checked(base, base);
    if (base == 0 || base == 1) exponent &= 1;
  }
  return int_value(result, origin);
}

Value integers(BinaryOperator which, int64_t a, int64_t b, Origin origin) {
  int64_t result = 0;
  switch (which) {
    case BinaryOperator::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      break;
    case BinaryOperator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      break;
    case BinaryOperator::multiply:
      result = multiply_checked(a, b);
      break;
    case BinaryOperator::divide:
      if (b == 0) fail_render("division by zero");
      // Rounded once below 2^53; above, long double is exact for the operands.
      if (is_exact_in_double(a) && is_exact_in_double(b)) {
        return real_value(static_cast<double>(a) / static_cast<double>(b), origin);
      }
      return real_value(static_cast<double>(static_cast<long double>(a) / b), origin);
    case BinaryOperator::floor_divide:
      if (b == 0) fail_render("integer division or modulo by zero");
      result = floor_divide(a, b);
      break;
    case BinaryOperator::modulo:
      if (b == 0) fail_render("integer modulo by zero");
      result = floor_modulo(a, b);
      break;
    case BinaryOperator::power:
      return integer_power(a, b, origin);
  }
  return int_value(result, origin);
}

Value reals(BinaryOperator which, double a, double b, Origin origin) {
  double result = 0;
  switch (which) {
    case BinaryOperator::add:
      result = a + b;
      break;
    case BinaryOperator::subtract:
      result = a - b;
      break;
    case BinaryOperator::multiply:
      result = a * b;
      break;
    case BinaryOperator::divide:
      if (b == 0) fail_render("float division by zero");
      result = a / b;
      break;
    case BinaryOperator::floor_divide:
      if (b == 0) fail_render("float floor division by zero");
      result = floor_divide(a, b);
      break;
    case BinaryOperator::modulo:
      if (b == 0) fail_render("float modulo");
      result = floor_modulo(a, b);
      break;
    case BinaryOperator::power:
      if (a == 0 && b < 0) fail_render("0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b && std::isfinite(a) && std::isfinite(b)) {
        fail_render("complex numbers are not supported");
      }
      result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        fail_render("(34, 'Numerical result out of range')");
      }
      break;
  }
  return real_value(result, origin);
}

Value repeat(Runtime& runtime, const Value& sequence, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (sequence.is(Kind::string)) {
    const MarkedText& text = sequence.text();
    if (times > 0 && text.size() > static_cast<size_t>(runtime.limits().bytes_built) / times) {
      fail_render("rendering needs more bytes of text than a chat template may use");
    }
    MarkedText out({}, text.overall_origin());
    for (size_t i = 0; i < times; ++i) {
      if (text.empty()) break;
      out.append(text);
    }
    return runtime.string(std::move(out));
  }
  const auto& items = sequence.items();
  std::vector<Value> out;
  for (size_t i = 0; i < times && !items.empty(); ++i) {
    runtime.charge(static_cast<int64_t>(items.size()));
    out.insert(out.end(), items.begin(), items.end());
  }
  return sequence.is(Kind::list) ? runtime.list(std::move(out), sequence.origin)
                                 : runtime.tuple(std::move(out), sequence.origin);
}

}  // namespace

Value apply_binary(Runtime& runtime, BinaryOperator which, const Value& a, const Value& b) {
  if (which == BinaryOperator::modulo && a.is(Kind::string)) return format_percent(runtime, a, b);
  require_defined(a);
  require_defined(b);
  const Origin origin = mix(a.origin, b.origin);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) {
      return integers(which, a.as_integer(), b.as_integer(), origin);
    }
    return reals(which, a.as_real(), b.as_real(), origin);
  }
  if (which == BinaryOperator::add && a.kind == b.kind) {
    if (a.is(Kind::string)) {
      MarkedText joined = a.text();
      joined.append(b.text());
      return runtime.string(std::move(joined));
    }
    if (a.is_sequence()) {
      std::vector<Value> joined = a.items();
      joined.insert(joined.end(), b.items().begin(), b.items().end());
      return a.is(Kind::list) ? runtime.list(std::move(joined), origin)
                              : runtime.tuple(std::move(joined), origin);
    }
  }
  if (which == BinaryOperator::add && a.is(Kind::string)) {
    fail_render("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (which == BinaryOperator::multiply) {
    if ((a.is(Kind::string) || a.is_sequence()) && b.is_integral()) {
      return repeat(runtime, a, b.as_integer());
    }
    if ((b.is(Kind::string) || b.is_sequence()) && a.is_integral()) {
      return repeat(runtime, b, a.as_integer());
    }
  }
  fail_render("unsupported operand type(s) for {}: '{}' and '{}'", operator_text(which),
              type_name(a), type_name(b));
}

Value apply_sign(const Value& value, bool negative) {
  require_defined(value);
  if (value.is(Kind::real)) {
    return real_value(negative ? -value.real : value.real, value.origin);
  }
  if (!value.is_integral()) {
    fail_render("bad operand type for unary {}: '{}'", negative ? '-' : '+', type_name(value));
  }
  if (negative && value.as_integer() == std::numeric_limits<int64_t>::min()) fail_overflow();
  return int_value(negative ? -value.as_integer() : value.as_integer(), value.origin);
}

}  // namespace strata::jinja
