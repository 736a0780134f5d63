#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/builtin.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

// The methods of str, list, tuple and dict that do not change them. The first argument is self.
namespace strata::jinja {
namespace {

Value text_list(Runtime& runtime, std::vector<MarkedText> parts, Origin origin) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(runtime.string(std::move(part)));
  return runtime.list(std::move(items), origin);
}

template <Side side>
Value method_strip(Runtime& runtime, const Bound& a) {
  if (!a.given(1)) return runtime.string(strip(a[0].text(), side, nullptr));
  const std::string_view characters = text_argument(a[1], "strip").bytes();
  return runtime.string(strip(a[0].text(), side, &characters));
}

template <bool from_right>
Value method_split(Runtime& runtime, const Bound& a) {
  const MarkedText& text = a[0].text();
  const int64_t limit = a.has(2) ? integer_argument(a[2], "split") : -1;
  std::vector<MarkedText> parts;
  if (a.given(1)) {
    const std::string_view separator = text_argument(a[1], "split").bytes();
    parts = from_right ? rsplit(text, separator, limit) : split(text, separator, limit);
  } else {
    parts = from_right ? rsplit_blanks(text, limit) : split_blanks(text, limit);
  }
  return text_list(runtime, std::move(parts), a[0].origin);
}

Value method_splitlines(Runtime& runtime, const Bound& a) {
  return text_list(runtime, split_lines(a[0].text(), a.has(1) && truthy(a[1])), a[0].origin);
}

template <bool from_right>
Value method_partition(Runtime& runtime, const Bound& a) {
  const MarkedText& text = a[0].text();
  const std::string_view separator = text_argument(a[1], "partition").bytes();
  if (separator.empty()) fail_render("empty separator");
  const size_t found = from_right ? text.bytes().rfind(separator) : text.bytes().find(separator);
  const auto part = [&](size_t begin, size_t end) {
    return runtime.string(text.slice(begin, end));
  };
  if (found == std::string::npos) {
    const Value empty = runtime.string({}, a[0].origin);
    return runtime.tuple(from_right ? std::vector<Value>{empty, empty, a[0]}
                                    : std::vector<Value>{a[0], empty, empty});
  }
  return runtime.tuple({part(0, found), part(found, found + separator.size()),
                        part(found + separator.size(), text.size())},
                       a[0].origin);
}

template <std::string (*function)(std::string_view)>
Value method_case(Runtime& runtime, const Bound& a) {
  return runtime.string(function(a[0].text().bytes()), a[0].origin);
}

template <CharacterClass which>
Value method_class(Runtime&, const Bound& a) {
  return bool_value(all_in_class(a[0].text().bytes(), which), a[0].origin);
}
template <bool (*function)(std::string_view)>
Value method_predicate(Runtime&, const Bound& a) {
  return bool_value(function(a[0].text().bytes()), a[0].origin);
}
Value method_isidentifier(Runtime&, const Bound& a) {
  const std::string& bytes = a[0].text().bytes();
  bool valid = !bytes.empty();
  for (size_t i = 0; i < bytes.size() && valid; i += utf8_length(bytes[i])) {
    const auto c = decode_utf8(std::string_view(bytes).substr(i)).code_point;
    valid = i == 0 ? is_identifier_start(c) : is_identifier_part(c);
  }
  return bool_value(valid, a[0].origin);
}

// The part of a text that start and end select, as str.find and its like do.
struct Window {
  size_t begin, end;  // bytes
  bool valid;
};
Window window(const Bound& a) {
  const std::string& bytes = a[0].text().bytes();
  if (!a.given(2) && !a.given(3)) return {0, bytes.size(), true};
  const std::vector<size_t> offsets = code_point_offsets(bytes);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto index = [&](size_t i, int64_t fallback) {
    if (!a.given(i)) return fallback;
    int64_t value = integer_argument(a[i], "slice index");
    if (value < 0) value = std::max<int64_t>(value + size, 0);
    return value;
  };
  const int64_t begin = index(2, 0), end = std::min(index(3, size), size);
  if (begin > end) return {0, 0, false};
  return {offsets[static_cast<size_t>(begin)], offsets[static_cast<size_t>(end)], true};
}

template <bool must_exist, bool from_right>
Value method_find(Runtime&, const Bound& a) {
  const std::string_view text = a[0].text().bytes();
  const std::string_view part = text_argument(a[1], "find").bytes();
  const Window w = window(a);
  const std::string_view inside = text.substr(w.begin, w.end - w.begin);
  const size_t found = !w.valid ? inside.npos : from_right ? inside.rfind(part) : inside.find(part);
  if (found == inside.npos) {
    if (must_exist) fail_render("substring not found");
    return int_value(-1, a[0].origin);
  }
  return int_value(count_code_points(text.substr(0, w.begin + found)), a[0].origin);
}

Value method_count(Runtime&, const Bound& a) {
  const std::string_view part = text_argument(a[1], "count").bytes();
  const Window w = window(a);
  if (!w.valid) return int_value(0, a[0].origin);
  const std::string_view text = a[0].text().bytes();
  return int_value(count(text.substr(w.begin, w.end - w.begin), part), a[0].origin);
}

template <bool at_end>
Value method_affix(Runtime&, const Bound& a) {
  const Window w = window(a);
  const std::string_view text =
      std::string_view(a[0].text().bytes()).substr(w.begin, w.end - w.begin);
  const auto matches = [&](const Value& affix) {
    const std::string_view s = text_argument(affix, at_end ? "endswith" : "startswith").bytes();
    if (!w.valid || s.size() > text.size()) return false;
    return at_end ? text.substr(text.size() - s.size()) == s : text.substr(0, s.size()) == s;
  };
  if (a[1].is(Kind::tuple)) {
    const auto& affixes = a[1].items();
    return bool_value(std::any_of(affixes.begin(), affixes.end(), matches), a[0].origin);
  }
  return bool_value(matches(a[1]), a[0].origin);
}

Value method_replace(Runtime& runtime, const Bound& a) {
  const int64_t limit = a.has(3) ? integer_argument(a[3], "replace") : -1;
  return runtime.string(replace(a[0].text(), text_argument(a[1], "replace").bytes(),
                                text_argument(a[2], "replace"), limit,
                                static_cast<size_t>(runtime.limits().bytes_built)));
}

Value method_join(Runtime& runtime, const Bound& a) {
  MarkedText out;
  bool first = true;
  int64_t position = 0;
  Cursor cursor(runtime, a[1]);
  Value item;
  while (cursor.next(item)) {
    if (!item.is(Kind::string)) {
      fail_render("sequence item {}: expected str instance, {} found", position, type_name(item));
    }
    if (!first) out.append(a[0].text());
    out.append(item.text());
    if (out.size() > static_cast<size_t>(runtime.limits().bytes_built))
      runtime.charge_bytes(out.size());
    first = false;
    ++position;
  }
  return runtime.string(std::move(out));
}

template <bool at_end>
Value method_removeaffix(Runtime& runtime, const Bound& a) {
  const MarkedText& text = a[0].text();
  const std::string& affix = text_argument(a[1], "removeprefix").bytes();
  if (affix.size() > text.size()) return a[0];
  const size_t rest = text.size() - affix.size();
  if (text.bytes().compare(at_end ? rest : 0, affix.size(), affix) != 0) return a[0];
  return runtime.string(at_end ? text.slice(0, rest) : text.slice(affix.size(), text.size()));
}

enum class Justify : uint8_t { left, right, center };
template <Justify how>
Value method_justify(Runtime& runtime, const Bound& a) {
  const std::string fill = a.has(2) ? text_argument(a[2], "justify").bytes() : " ";
  const Origin fill_origin = a.has(2) ? a[2].origin : Origin::from_template;
  if (count_code_points(fill) != 1) {
    fail_render("The fill character must be exactly one character long");
  }
  const int64_t width = integer_argument(a[1], "justify");
  const int64_t pad = width - length(a[0]);
  if (pad <= 0) return a[0];
  runtime.charge_bytes(static_cast<size_t>(pad));
  // As CPython's center: the odd blank goes left when the width is odd too.
  const int64_t left = how == Justify::left    ? 0
                       : how == Justify::right ? pad
                                               : pad / 2 + (pad & width & 1);
  runtime.charge_bytes(static_cast<size_t>(pad) * fill.size());
  MarkedText out({}, a[0].origin);
  for (int64_t i = 0; i < left; ++i) out.append(fill, fill_origin);
  out.append(a[0].text());
  for (int64_t i = left; i < pad; ++i) out.append(fill, fill_origin);
  return runtime.string(std::move(out));
}

Value method_zfill(Runtime& runtime, const Bound& a) {
  const int64_t pad = integer_argument(a[1], "zfill") - length(a[0]);
  if (pad <= 0) return a[0];
  runtime.charge_bytes(static_cast<size_t>(pad));
  const MarkedText& text = a[0].text();
  const bool sign = !text.empty() && (text.bytes()[0] == '+' || text.bytes()[0] == '-');
  MarkedText out = text.slice(0, sign ? 1 : 0);
  out.append(std::string(static_cast<size_t>(pad), '0'), Origin::from_template);
  out.append_slice(text, sign ? 1 : 0, text.size());
  return runtime.string(std::move(out));
}

Value method_expandtabs(Runtime& runtime, const Bound& a) {
  const int64_t size = a.has(1) ? integer_argument(a[1], "expandtabs") : 8;
  const MarkedText& text = a[0].text();
  MarkedText out({}, a[0].origin);
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t next = i + utf8_length(text.bytes()[i]);
    const char c = text.bytes()[i];
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      runtime.charge_bytes(static_cast<size_t>(blanks));
      out.append(std::string(static_cast<size_t>(blanks), ' '), Origin::from_template);
      column += blanks;
    } else {
      out.append_slice(text, i, next);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    i = next;
  }
  return runtime.string(std::move(out));
}

Value method_list_index(Runtime& runtime, const Bound& a) {
  const auto& items = a[0].items();
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(runtime, items[i], a[1])) return int_value(static_cast<int64_t>(i), a[0].origin);
  }
  fail_render("{} is not in list", repr(runtime, a[1]));
}

Value method_list_count(Runtime& runtime, const Bound& a) {
  const auto& items = a[0].items();
  const auto found = std::count_if(items.begin(), items.end(),
                                   [&](const Value& item) { return equals(runtime, item, a[1]); });
  return int_value(found, a[0].origin);
}

Value method_list_copy(Runtime& runtime, const Bound& a) {
  return runtime.list(a[0].items(), a[0].origin);
}

template <ViewKind what>
Value method_view(Runtime& runtime, const Bound& a) {
  std::vector<Value> items;
  for (const auto& [key, value] : a[0].dict().entries()) {
    items.push_back(what == ViewKind::keys     ? key
                    : what == ViewKind::values ? value
                                               : runtime.tuple({key, value}, a[0].origin));
  }
  return runtime.view(what, std::move(items), a[0].origin);
}

Value method_get(Runtime&, const Bound& a) {
  if (const Value* found = a[0].dict().find(a[1])) return *found;
  return a.has(2) ? a[2] : none_value();
}

Value method_dict_copy(Runtime& runtime, const Bound& a) {
  auto* dict = runtime.heap().make<DictObject>(a[0].dict());
  runtime.charge(static_cast<int64_t>(dict->entries().size()));
  return runtime.object(Kind::dict, dict, a[0].origin);
}

Value method_is_integer(Runtime&, const Bound& a) {
  return bool_value(std::isfinite(a[0].real) && std::floor(a[0].real) == a[0].real, a[0].origin);
}

constexpr Builtin kStringMethods[] = {
    {"strip", "self chars? /", method_strip<Side::both>},
    {"lstrip", "self chars? /", method_strip<Side::left>},
    {"rstrip", "self chars? /", method_strip<Side::right>},
    {"split", "self / sep? maxsplit?", method_split<false>},
    {"rsplit", "self / sep? maxsplit?", method_split<true>},
    {"splitlines", "self / keepends?", method_splitlines},
    {"partition", "self sep /", method_partition<false>},
    {"rpartition", "self sep /", method_partition<true>},
    {"upper", "self", method_case<to_upper>},
    {"lower", "self", method_case<to_lower>},
    {"title", "self", method_case<to_title>},
    {"capitalize", "self", method_case<to_capitalized>},
    {"swapcase", "self", method_case<to_swapcase>},
    {"casefold", "self", method_case<to_casefold>},
    {"isalpha", "self", method_class<CharacterClass::alpha>},
    {"isalnum", "self", method_class<CharacterClass::alnum>},
    {"isdigit", "self", method_class<CharacterClass::digit>},
    {"isdecimal", "self", method_class<CharacterClass::decimal>},
    {"isnumeric", "self", method_class<CharacterClass::numeric>},
    {"isspace", "self", method_class<CharacterClass::space>},
    {"isprintable", "self", method_class<CharacterClass::printable>},
    {"islower", "self", method_predicate<is_lower_text>},
    {"isupper", "self", method_predicate<is_upper_text>},
    {"istitle", "self", method_predicate<is_title_text>},
    {"isascii", "self", method_predicate<is_ascii>},
    {"isidentifier", "self", method_isidentifier},
    {"find", "self sub start? end? /", method_find<false, false>},
    {"rfind", "self sub start? end? /", method_find<false, true>},
    {"index", "self sub start? end? /", method_find<true, false>},
    {"rindex", "self sub start? end? /", method_find<true, true>},
    {"count", "self sub start? end? /", method_count},
    {"startswith", "self prefix start? end? /", method_affix<false>},
    {"endswith", "self suffix start? end? /", method_affix<true>},
    {"replace", "self old new count? /", method_replace},
    {"join", "self iterable /", method_join},
    {"removeprefix", "self prefix /", method_removeaffix<false>},
    {"removesuffix", "self suffix /", method_removeaffix<true>},
    {"ljust", "self width fillchar? /", method_justify<Justify::left>},
    {"rjust", "self width fillchar? /", method_justify<Justify::right>},
    {"center", "self width fillchar? /", method_justify<Justify::center>},
    {"zfill", "self width /", method_zfill},
    {"expandtabs", "self / tabsize?", method_expandtabs},
    {"format", "self / * **", format_method},
};
constexpr Builtin kListMethods[] = {
    {"index", "self value /", method_list_index},
    {"count", "self value /", method_list_count},
    {"copy", "self", method_list_copy},
};
constexpr Builtin kDictMethods[] = {
    {"keys", "self", method_view<ViewKind::keys>},
    {"values", "self", method_view<ViewKind::values>},
    {"items", "self", method_view<ViewKind::items>},
    {"get", "self key default? /", method_get},
    {"copy", "self", method_dict_copy},
};
constexpr Builtin kRealMethods[] = {{"is_integer", "self", method_is_integer}};

template <size_t N>
const Builtin* find_in(const Builtin (&table)[N], std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Builtin& builtin) { return builtin.name == name; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

const Builtin* find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::string:
      return find_in(kStringMethods, name);
    case Kind::list:
      return find_in(kListMethods, name);
    case Kind::tuple:
      return name == "copy" ? nullptr : find_in(kListMethods, name);
    case Kind::dict:
      return find_in(kDictMethods, name);
    case Kind::real:
      return find_in(kRealMethods, name);
    default:
      return nullptr;
  }
}

bool is_known_unsupported_method(Kind kind, std::string_view name) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  switch (kind) {
    case Kind::string:
      return is_one_of({"encode", "translate", "maketrans", "format_map"});
    case Kind::dict:
      return name == "fromkeys";
    case Kind::integer:
    case Kind::boolean:
      return is_one_of({"bit_length", "bit_count", "to_bytes", "from_bytes", "conjugate",
                        "as_integer_ratio", "real", "imag", "numerator", "denominator"});
    case Kind::real:
      return is_one_of({"as_integer_ratio", "hex", "fromhex", "conjugate", "real", "imag"});
    case Kind::range:
      return is_one_of({"start", "stop", "step", "index", "count"});
    case Kind::view:
      return is_one_of({"mapping", "isdisjoint"});
    default:
      return false;
  }
}

}  // namespace strata::jinja
