#include <algorithm>

#include "text/jinja/builtin.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

// The `is` tests.
namespace strata::jinja {
namespace {

template <Kind kind>
Value test_kind(Runtime&, const Bound& a) {
  return bool_value(a[0].is(kind));
}

Value test_defined(Runtime&, const Bound& a) { return bool_value(!a[0].is(Kind::undefined)); }
Value test_true(Runtime&, const Bound& a) {
  return bool_value(a[0].is(Kind::boolean) && a[0].boolean);
}
Value test_false(Runtime&, const Bound& a) {
  return bool_value(a[0].is(Kind::boolean) && !a[0].boolean);
}
Value test_number(Runtime&, const Bound& a) { return bool_value(a[0].is_number()); }
Value test_sequence(Runtime&, const Bound& a) {
  return bool_value(has_length(a[0]) && !a[0].is(Kind::view));
}
Value test_iterable(Runtime&, const Bound& a) { return bool_value(is_iterable(a[0])); }
Value test_callable(Runtime&, const Bound& a) {
  return bool_value(a[0].is(Kind::callable) || a[0].is(Kind::undefined));
}
Value test_sameas(Runtime&, const Bound& a) { return bool_value(is_same_object(a[0], a[1])); }
Value test_never(Runtime&, const Bound&) { return bool_value(false); }
Value test_in(Runtime& runtime, const Bound& a) {
  return bool_value(contains(runtime, a[1], a[0]));
}

Value test_lower(Runtime& runtime, const Bound& a) {
  return bool_value(is_lower_text(to_text(runtime, a[0]).bytes()));
}
Value test_upper(Runtime& runtime, const Bound& a) {
  return bool_value(is_upper_text(to_text(runtime, a[0]).bytes()));
}

bool rest_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t rest) {
  return equals(runtime, apply_binary(runtime, BinaryOperator::modulo, value, divisor),
                int_value(rest));
}
Value test_odd(Runtime& runtime, const Bound& a) {
  return bool_value(rest_is(runtime, a[0], int_value(2), 1));
}
Value test_even(Runtime& runtime, const Bound& a) {
  return bool_value(rest_is(runtime, a[0], int_value(2), 0));
}
Value test_divisibleby(Runtime& runtime, const Bound& a) {
  return bool_value(rest_is(runtime, a[0], a[1], 0));
}

Value test_eq(Runtime& runtime, const Bound& a) { return bool_value(equals(runtime, a[0], a[1])); }
Value test_ne(Runtime& runtime, const Bound& a) { return bool_value(!equals(runtime, a[0], a[1])); }
Value test_lt(Runtime& runtime, const Bound& a) {
  return bool_value(compare(runtime, a[0], a[1], "<").value_or(1) < 0);
}
Value test_le(Runtime& runtime, const Bound& a) {
  return bool_value(compare(runtime, a[0], a[1], "<=").value_or(1) <= 0);
}
Value test_gt(Runtime& runtime, const Bound& a) {
  return bool_value(compare(runtime, a[0], a[1], ">").value_or(-1) > 0);
}
Value test_ge(Runtime& runtime, const Bound& a) {
  return bool_value(compare(runtime, a[0], a[1], ">=").value_or(-1) >= 0);
}

Value test_filter(Runtime&, const Bound& a) {
  hash_key(a[0]);  // refuses what cannot be looked up in a dict
  return bool_value(a[0].is(Kind::string) && find_filter(a[0].text().bytes()) != nullptr);
}
Value test_test(Runtime&, const Bound& a) {
  hash_key(a[0]);
  return bool_value(a[0].is(Kind::string) && find_test(a[0].text().bytes()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"defined", "value", test_defined},
    {"undefined", "value", test_kind<Kind::undefined>},
    {"none", "value", test_kind<Kind::none>},
    {"string", "value", test_kind<Kind::string>},
    {"mapping", "value", test_kind<Kind::dict>},
    {"boolean", "value", test_kind<Kind::boolean>},
    {"integer", "value", test_kind<Kind::integer>},
    {"float", "value", test_kind<Kind::real>},
    {"number", "value", test_number},
    {"true", "value", test_true},
    {"false", "value", test_false},
    {"sequence", "value", test_sequence},
    {"iterable", "value", test_iterable},
    {"callable", "value", test_callable},
    {"escaped", "value", test_never},
    {"sameas", "value other", test_sameas},
    {"in", "value seq", test_in},
    {"lower", "value", test_lower},
    {"upper", "value", test_upper},
    {"odd", "value", test_odd},
    {"even", "value", test_even},
    {"divisibleby", "value num", test_divisibleby},
    {"filter", "value", test_filter},
    {"test", "value", test_test},
    {"eq", "a b", test_eq},
    {"equalto", "a b", test_eq},
    {"==", "a b", test_eq},
    {"ne", "a b", test_ne},
    {"!=", "a b", test_ne},
    {"lt", "a b", test_lt},
    {"lessthan", "a b", test_lt},
    {"<", "a b", test_lt},
    {"le", "a b", test_le},
    {"<=", "a b", test_le},
    {"gt", "a b", test_gt},
    {"greaterthan", "a b", test_gt},
    {">", "a b", test_gt},
    {"ge", "a b", test_ge},
    {">=", "a b", test_ge},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [&](const Builtin& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace strata::jinja
