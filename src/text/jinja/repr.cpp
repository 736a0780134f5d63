#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

// How values print: Python's str() and repr().
namespace strata::jinja {
namespace {

constexpr int kMaxReprDepth = 200;

void append_repr(Runtime& runtime, const Value& value, std::string& out, int depth);

void append_items(Runtime& runtime, const std::vector<Value>& items, std::string& out, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ", ";
    append_repr(runtime, items[i], out, depth + 1);
  }
}

void append_entries(Runtime& runtime, const DictObject& dict, std::string& out, int depth) {
  out += '{';
  for (size_t i = 0; i < dict.entries().size(); ++i) {
    if (i != 0) out += ", ";
    append_repr(runtime, dict.entries()[i].first, out, depth + 1);
    out += ": ";
    append_repr(runtime, dict.entries()[i].second, out, depth + 1);
  }
  out += '}';
}

void append_repr(Runtime& runtime, const Value& value, std::string& out, int depth) {
  if (depth > kMaxReprDepth) fail_render("values are nested deeper than {}", kMaxReprDepth);
  runtime.charge(1);
  const size_t size_before = out.size();
  switch (value.kind) {
    case Kind::absent:
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.boolean ? "True" : "False";
      break;
    case Kind::integer:
      out += fmt::format("{}", value.integer);
      break;
    case Kind::real:
      out += real_repr(value.real);
      break;
    case Kind::string:
      out += quote(value.text().bytes());
      break;
    case Kind::list:
      out += '[';
      append_items(runtime, value.items(), out, depth);
      out += ']';
      return;
    case Kind::tuple:
      out += '(';
      append_items(runtime, value.items(), out, depth);
      out += value.items().size() == 1 ? ",)" : ")";
      return;
    case Kind::dict:
      append_entries(runtime, value.dict(), out, depth);
      return;
    case Kind::view:
      out += fmt::format("{}([", type_name(value));
      append_items(runtime, value.view().items, out, depth);
      out += "])";
      return;
    case Kind::range: {
      const RangeObject& range = value.range();
      out += fmt::format("range({}, {}", range.start, range.stop);
      out += range.step == 1 ? ")" : fmt::format(", {})", range.step);
      break;
    }
    case Kind::iterator:
      out += fmt::format("<{} object>", type_name(value));
      break;
    case Kind::name_space:
      out += "<Namespace ";
      append_entries(runtime, value.name_space().attributes, out, depth);
      out += '>';
      return;
    case Kind::callable:
      out += value.callable().describe();
      break;
  }
  runtime.charge_bytes(out.size() - size_before);
}

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits that read back as the same number, laid out as Python does: an exponent below
  // 1e-4 and from 1e16 on.
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view all(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = all.find('e');
  const int exponent = std::atoi(std::string(all.substr(e + 1)).c_str());
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = all[0] == '-' ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    out += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    const auto point = static_cast<size_t>(exponent) + 1;
    out += digits.substr(0, point) + "." + digits.substr(point);
  }
  return out;
}

std::string quote(std::string_view text) {
  const bool single = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char mark = single ? '"' : '\'';
  std::string out(1, mark);
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    const char32_t c = step.code_point;
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(0, static_cast<size_t>(step.length));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  out += mark;
  return out;
}

std::string repr(Runtime& runtime, const Value& value) {
  std::string out;
  append_repr(runtime, value, out, 0);
  return out;
}

MarkedText to_text(Runtime& runtime, const Value& value) {
  if (value.is(Kind::string)) return value.text();
  if (value.is(Kind::undefined)) return {};
  return MarkedText(repr(runtime, value), deep_origin(runtime, value));
}

}  // namespace strata::jinja
