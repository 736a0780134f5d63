#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/json_text.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace strata::jinja {
namespace {

Value map_text(Runtime& runtime, const Value& value, std::string (*function)(std::string_view)) {
  const MarkedText text = to_text(runtime, value);
  return runtime.string(function(text.bytes()), text.overall_origin());
}

// The title filter differs from str.title(): words begin after blanks and - ( { [ <, and only
// there.
std::string title_words(std::string_view text) {
  std::string out;
  bool begin = true;
  size_t word = 0;
  const auto flush = [&](size_t end) {
    const std::string_view part = text.substr(word, end - word);
    if (part.empty()) return;
    const size_t head = utf8_length(part[0]);
    out += to_upper(part.substr(0, head)) + to_lower(part.substr(head));
  };
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text.substr(i));
    const char32_t c = step.code_point;
    const bool separator =
        is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separator != begin || i == 0) {
      flush(i);
      word = i;
      begin = separator;
    }
    i += static_cast<size_t>(step.length);
  }
  flush(text.size());
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string quote_url(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

Value filter_upper(Runtime& runtime, const Bound& a) { return map_text(runtime, a[0], to_upper); }
Value filter_lower(Runtime& runtime, const Bound& a) { return map_text(runtime, a[0], to_lower); }
Value filter_title(Runtime& runtime, const Bound& a) {
  return map_text(runtime, a[0], title_words);
}
Value filter_capitalize(Runtime& runtime, const Bound& a) {
  return map_text(runtime, a[0], to_capitalized);
}
Value filter_escape(Runtime& runtime, const Bound& a) {
  return map_text(runtime, a[0], escape_html);
}
Value filter_string(Runtime& runtime, const Bound& a) {
  return a[0].is(Kind::string) ? a[0] : runtime.string(to_text(runtime, a[0]));
}

Value filter_trim(Runtime& runtime, const Bound& a) {
  const MarkedText text = to_text(runtime, a[0]);
  if (!a.given(1)) return runtime.string(strip(text, Side::both, nullptr));
  const std::string_view characters = text_argument(a[1], "trim").bytes();
  return runtime.string(strip(text, Side::both, &characters));
}

Value filter_replace(Runtime& runtime, const Bound& a) {
  const int64_t limit = a.given(3) ? integer_argument(a[3], "replace") : -1;
  return runtime.string(replace(to_text(runtime, a[0]), to_text(runtime, a[1]).bytes(),
                                to_text(runtime, a[2]), limit,
                                static_cast<size_t>(runtime.limits().bytes_built)));
}

Value filter_indent(Runtime& runtime, const Bound& a) {
  MarkedText indention;
  if (a.has(1) && a[1].is(Kind::string)) {
    indention = a[1].text();
  } else {
    const int64_t width = a.has(1) ? integer_argument(a[1], "indent") : 4;
    runtime.charge_bytes(static_cast<size_t>(std::max<int64_t>(width, 0)));
    indention.append(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '),
                     Origin::from_template);
  }
  const bool first = a.has(2) && truthy(a[2]), blank = a.has(3) && truthy(a[3]);
  MarkedText source = text_argument(a[0], "indent");
  source.append("\n", Origin::from_template);  // so that a last empty line is one
  const std::vector<MarkedText> lines = split_lines(source, false);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.append("\n", Origin::from_template);
    const bool indent = i == 0 ? first : blank || !lines[i].empty();
    runtime.charge_bytes(indention.size());
    if (indent) out.append(indention);
    out.append(lines[i]);
  }
  return runtime.string(std::move(out));
}

Value filter_truncate(Runtime& runtime, const Bound& a) {
  const int64_t wanted = a.has(1) ? integer_argument(a[1], "truncate") : 255;
  const bool kill_words = a.has(2) && truthy(a[2]);
  const MarkedText end =
      a.has(3) ? text_argument(a[3], "truncate") : MarkedText("...", Origin::from_template);
  const int64_t leeway = a.given(4) ? integer_argument(a[4], "truncate") : 5;
  const int64_t end_length = count_code_points(end.bytes());
  if (wanted < end_length) fail_render("expected length >= {}, got {}", end_length, wanted);
  if (leeway < 0) fail_render("expected leeway >= 0, got {}", leeway);
  const int64_t size = length(a[0]);  // whatever is short enough stays as it is, a list too
  if (size <= leeway || size - leeway <= wanted) return a[0];
  const MarkedText& text = text_argument(a[0], "truncate");
  const std::vector<size_t> offsets = code_point_offsets(text.bytes());
  MarkedText out = text.slice(0, offsets[static_cast<size_t>(wanted - end_length)]);
  if (!kill_words) out = MarkedText(rsplit(out, " ", 1).front());
  out.append(end);
  return runtime.string(std::move(out));
}

Value filter_wordcount(Runtime& runtime, const Bound& a) {
  const MarkedText text = to_text(runtime, a[0]);
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const Utf8Step step = decode_utf8(rest);
    const bool word = is_word_character(step.code_point);
    words += word && !inside;
    inside = word;
    rest.remove_prefix(static_cast<size_t>(step.length));
  }
  return int_value(words, text.overall_origin());
}

Value filter_center(Runtime& runtime, const Bound& a) {
  Arguments arguments;
  arguments.positional = {runtime.string(to_text(runtime, a[0])), a.has(1) ? a[1] : int_value(80)};
  const Builtin& method = *find_method(Kind::string, "center");
  return method.run(runtime, bind(method, arguments));
}

Value filter_format(Runtime& runtime, const Bound& a) {
  if (!a.rest.empty() && !a.rest_named.empty()) {
    fail_render("can't handle positional and keyword arguments at the same time");
  }
  const Value format = runtime.string(to_text(runtime, a[0]));
  if (a.rest_named.empty()) return format_percent(runtime, format, runtime.tuple(a.rest));
  auto* named = runtime.heap().make<DictObject>();
  for (const auto& [name, value] : a.rest_named) {
    named->set(runtime.string(name, Origin::from_template), value);
  }
  return format_percent(runtime, format, runtime.object(Kind::dict, named));
}

Value filter_urlencode(Runtime& runtime, const Bound& a) {
  const auto part = [&](const Value& value) {
    return quote_url(to_text(runtime, value).bytes(), true);
  };
  const Origin origin = deep_origin(runtime, a[0]);
  if (a[0].is(Kind::string) || !is_iterable(a[0])) {
    return runtime.string(quote_url(to_text(runtime, a[0]).bytes(), false), origin);
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += part(key) + "=" + part(value);
  };
  if (a[0].is(Kind::dict)) {
    for (const auto& [key, value] : a[0].dict().entries()) add(key, value);
  } else {
    for (const Value& pair : collect(runtime, a[0])) {
      const std::vector<Value> both = collect(runtime, pair);
      if (both.size() != 2) fail_render("not enough values to unpack (expected 2)");
      add(both[0], both[1]);
    }
  }
  return runtime.string(std::move(out), origin);
}

Value filter_tojson(Runtime& runtime, const Bound& a) {
  JsonStyle style;
  style.ascii = a.has(1) && truthy(a[1]);
  if (a.given(2)) {
    style.pretty = true;
    style.item_separator = ",";
    if (a[2].is(Kind::string)) {
      style.indent = a[2].text().bytes();
    } else {
      const int64_t width = std::max<int64_t>(integer_argument(a[2], "tojson: indent"), 0);
      runtime.charge_bytes(static_cast<size_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (a.given(3)) {
    const std::vector<Value> separators = collect(runtime, a[3]);
    if (separators.size() != 2) fail_render("not enough values to unpack (expected 2)");
    style.item_separator = text_argument(separators[0], "tojson: separators").bytes();
    style.key_separator = text_argument(separators[1], "tojson: separators").bytes();
  }
  style.sort_keys = a.has(4) && truthy(a[4]);
  const Origin origin = deep_origin(runtime, a[0]);
  return runtime.string(json_text(runtime, a[0], style), origin);
}

Value filter_join(Runtime& runtime, const Bound& a) {
  const MarkedText separator = a.has(1) ? to_text(runtime, a[1]) : MarkedText();
  const AttributePath path(runtime, a.has(2) ? a[2] : none_value());
  MarkedText out;
  bool first = true;
  Cursor cursor(runtime, a[0]);
  Value item;
  while (cursor.next(item)) {
    if (!first) out.append(separator);
    first = false;
    out.append(to_text(runtime, path.get(runtime, item)));
    if (out.size() > static_cast<size_t>(runtime.limits().bytes_built)) {
      runtime.charge_bytes(out.size());
    }
  }
  return runtime.string(std::move(out));
}

}  // namespace strata::jinja
