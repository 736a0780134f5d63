#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

// str.format.
namespace strata::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), is_digit);
}

std::optional<FormatSpec> read_spec(std::string_view text) {
  FormatSpec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : utf8_length(text[0]);
  if (first != 0 && text.size() > first && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view any) {
    if (text.empty() || any.find(text[0]) == any.npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0' && spec.align == '\0') {
    spec.align = '=';
    spec.fill = "0";
  }
  const auto number = [&] {
    int64_t value = 0;
    while (!text.empty() && is_digit(text[0])) {
      value = std::min<int64_t>(value * 10 + (text[0] - '0'), 1 << 30);
      text.remove_prefix(1);
    }
    return value;
  };
  spec.width = number();
  if (const char group = take(",_")) spec.group = group;
  if (take(".") != '\0') {
    if (text.empty() || !is_digit(text[0])) return std::nullopt;
    spec.precision = number();
  }
  spec.type = take("bcdeEfFgGnosxX%");
  return text.empty() ? std::optional(spec) : std::nullopt;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Bound& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  Value run() {
    Origin origin = arguments_[0].origin;
    for (const Value& value : arguments_.rest) origin = mix(origin, deep_origin(runtime_, value));
    for (const auto& [name, value] : arguments_.rest_named) {
      origin = mix(origin, deep_origin(runtime_, value));
    }
    return runtime_.string(expand(arguments_[0].text().bytes(), 0), origin);
  }

 private:
  std::string expand(std::string_view format, int depth) {
    if (depth > 1) fail_render("Max string recursion exceeded");
    std::string out;
    for (size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      const bool doubled = i + 1 < format.size() && format[i + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        ++i;
      } else if (c == '}') {
        fail_render("Single '}}' encountered in format string");
      } else if (c == '{') {
        const size_t end = field_end(format, i + 1);
        out += field(format.substr(i + 1, end - i - 1), depth);
        runtime_.charge_bytes(out.size() / 16);
        i = end;
      } else {
        out += c;
      }
    }
    return out;
  }

  static size_t field_end(std::string_view format, size_t begin) {
    int open = 1;
    for (size_t i = begin; i < format.size(); ++i) {
      if (format[i] == '{') ++open;
      if (format[i] == '}' && --open == 0) return i;
    }
    fail_render("{}", begin >= format.size() ? "Single '{' encountered in format string"
                                             : "expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    // A colon or mark inside [...] belongs to the key.
    size_t name_end = 0;
    for (bool inside = false; name_end < text.size(); ++name_end) {
      const char c = text[name_end];
      if (c == '[') inside = true;
      if (c == ']') inside = false;
      if (!inside && (c == ':' || c == '!')) break;
    }
    Value value = look_up(text.substr(0, name_end));
    text.remove_prefix(name_end);
    if (!text.empty() && text[0] == '!') {
      const char conversion = text.size() > 1 ? text[1] : '\0';
      if (conversion == 'r') {
        value = runtime_.string(repr(runtime_, value), value.origin);
      } else if (conversion == 's') {
        value = runtime_.string(to_text(runtime_, value));
      } else {
        fail(ErrorCode::unsupported, "str.format: the conversion !{}", conversion);
      }
      text.remove_prefix(2);
      if (!text.empty() && text[0] != ':') fail_render("expected ':' after conversion specifier");
    }
    if (!text.empty()) text.remove_prefix(1);
    // As in CPython only a layout with fields of its own counts as a level.
    const bool has_fields = text.find('{') != std::string_view::npos;
    return layout(value, has_fields ? expand(text, depth + 1) : std::string(text));
  }

  Value look_up(std::string_view name) {
    const size_t first_end = std::min(name.find('.'), name.find('['));
    const std::string_view first = name.substr(0, first_end);
    Value value = absent_value();
    if (first.empty() || all_digits(first)) {
      const bool automatic = first.empty();
      if (numbering_ != Numbering::none && (numbering_ == Numbering::automatic) != automatic) {
        fail_render(
            "cannot switch between manual field specification and automatic field "
            "numbering");
      }
      numbering_ = automatic ? Numbering::automatic : Numbering::manual;
      const size_t index = automatic ? next_++ : std::stoul(std::string(first));
      if (index >= arguments_.rest.size()) {
        fail_render("Replacement index {} out of range for positional args tuple", index);
      }
      value = arguments_.rest[index];
    } else {
      for (const auto& [key, named] : arguments_.rest_named) {
        if (key == first) value = named;
      }
      if (value.is(Kind::absent)) fail_render("{}", quote(first));
    }
    name.remove_prefix(first.size());
    return follow(value, name);
  }

  Value follow(Value value, std::string_view path) {
    while (!path.empty()) {
      if (path[0] == '.') {
        const std::string_view part = path.substr(1, path.find_first_of(".[", 1) - 1);
        if (part.empty()) fail_render("Empty attribute in format string");
        value = get_attribute(runtime_, value, part);
        path.remove_prefix(part.size() + 1);
      } else if (path[0] == '[') {
        const size_t end = path.find(']');
        if (end == path.npos) fail_render("Missing ']' in format string");
        const std::string_view key = path.substr(1, end - 1);
        if (key.empty()) fail_render("Empty attribute in format string");
        value =
            get_item(runtime_, value,
                     all_digits(key) ? int_value(std::stoll(std::string(key)))
                                     : runtime_.string(std::string(key), Origin::from_template));
        path.remove_prefix(end + 1);
      } else {
        fail_render("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  std::string layout(const Value& value, const std::string& spec_text) {
    if (spec_text.empty()) return to_text(runtime_, value).bytes();
    auto spec = read_spec(spec_text);
    if (!spec) fail_render("Invalid format specifier '{}'", spec_text);
    const bool real_type = std::string_view("eEfFgG%").find(spec->type) != std::string_view::npos;
    if (value.is_number() && spec->type != 's') {
      if (spec->align == '\0') spec->align = '>';
      if (spec->type == 'n') spec->type = value.is(Kind::real) ? 'g' : 'd';
      if (spec->type == '\0' && value.is(Kind::real)) {
        if (spec->precision >= 0 || spec->group != '\0') {
          fail(ErrorCode::unsupported,
               "str.format: precision or grouping of a float without a type");
        }
        std::string text = real_repr(value.real);
        if (value.real >= 0 && spec->sign != '-') text.insert(0, 1, spec->sign);
        return pad_text(runtime_, std::move(text), *spec);
      }
      if (spec->type == '\0' && value.is(Kind::boolean)) {
        return pad_text(runtime_, format_integer(value.as_integer(), *spec), *spec);
      }
      if (value.is(Kind::real) || real_type) {
        if (!real_type) {
          fail_render("Unknown format code '{}' for object of type 'float'", spec->type);
        }
        return pad_text(runtime_, format_real(value.as_real(), *spec), *spec);
      }
      if (spec->type == 'c') fail(ErrorCode::unsupported, "str.format: the type c");
      return pad_text(runtime_, format_integer(value.as_integer(), *spec), *spec);
    }
    if (!value.is(Kind::string)) {
      fail_render("unsupported format string passed to {}.__format__", type_name(value));
    }
    if (spec->type != '\0' && spec->type != 's') {
      fail_render("Unknown format code '{}' for object of type 'str'", spec->type);
    }
    if (spec->align == '=') {
      fail_render("'=' alignment not allowed in string format specifier");
    }
    if (spec->align == '\0') spec->align = '<';
    std::string text = value.text().bytes();
    if (spec->precision >= 0) {
      const std::vector<size_t> offsets = code_point_offsets(text);
      text.resize(offsets[std::min(static_cast<size_t>(spec->precision), offsets.size() - 1)]);
    }
    return pad_text(runtime_, std::move(text), *spec);
  }

  enum class Numbering : uint8_t { none, automatic, manual };

  Runtime& runtime_;
  const Bound& arguments_;
  Numbering numbering_ = Numbering::none;
  size_t next_ = 0;
};

}  // namespace

Value format_method(Runtime& runtime, const Bound& arguments) {
  return BraceFormatter(runtime, arguments).run();
}

}  // namespace strata::jinja
