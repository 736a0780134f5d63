#include "text/jinja/json_text.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/operations.h"

namespace strata::jinja {
namespace {

constexpr int kMaxJsonDepth = 200;

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value, int depth) {
    if (depth > kMaxJsonDepth) fail_render("values are nested deeper than {}", kMaxJsonDepth);
    runtime_.charge(1);
    const size_t before = out.size();
    switch (value.kind) {
      case Kind::none:
        out += "null";
        break;
      case Kind::boolean:
        out += value.boolean ? "true" : "false";
        break;
      case Kind::integer:
        out += fmt::format("{}", value.integer);
        break;
      case Kind::real:
        out += number(value.real);
        break;
      case Kind::string:
        write_string(value.text().bytes());
        break;
      case Kind::list:
      case Kind::tuple:
        return write_list(value.items(), depth);
      case Kind::dict:
        return write_dict(value.dict(), depth);
      default:
        fail_render("Object of type {} is not JSON serializable", type_name(value));
    }
    runtime_.charge_bytes(out.size() - before);
  }

  std::string out;

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_repr(value);
  }

  void new_line(int depth) {
    if (!style_.pretty) return;
    out += '\n';
    runtime_.charge_bytes(style_.indent.size() * static_cast<size_t>(depth));
    for (int i = 0; i < depth; ++i) out += style_.indent;
  }

  void write_list(const std::vector<Value>& items, int depth) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += style_.item_separator;
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    new_line(depth);
    out += ']';
  }

  void write_dict(const DictObject& dict, int depth) {
    auto entries = dict.entries();
    if (entries.empty()) {
      out += "{}";
      return;
    }
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return compare(runtime_, a.first, b.first).value_or(0) < 0;
      });
    }
    out += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out += style_.item_separator;
      new_line(depth + 1);
      write_key(entries[i].first);
      out += style_.key_separator;
      write(entries[i].second, depth + 1);
    }
    new_line(depth);
    out += '}';
  }

  void write_key(const Value& key) {
    switch (key.kind) {
      case Kind::string:
        return write_string(key.text().bytes());
      case Kind::none:
        return write_string("null");
      case Kind::boolean:
        return write_string(key.boolean ? "true" : "false");
      case Kind::integer:
        return write_string(fmt::format("{}", key.integer));
      case Kind::real:
        return write_string(number(key.real));
      default:
        fail_render("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void write_unit(uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

  void write_escaped(char32_t c) {
    if (c < 0x10000) return write_unit(c);
    const auto rest = static_cast<uint32_t>(c) - 0x10000;
    write_unit(0xD800 + (rest >> 10));
    write_unit(0xDC00 + (rest & 0x3FF));
  }

  void write_string(std::string_view text) {
    out += '"';
    while (!text.empty()) {
      const Utf8Step step = decode_utf8(text);
      const char32_t c = step.code_point;
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\b':
          out += "\\b";
          break;
        case '\f':
          out += "\\f";
          break;
        default:
          if (c < 0x20 || (style_.ascii && c > 0x7E)) {
            write_escaped(c);
          } else {
            out += text.substr(0, static_cast<size_t>(step.length));
          }
      }
      text.remove_prefix(static_cast<size_t>(step.length));
    }
    out += '"';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
};

}  // namespace

std::string json_text(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace strata::jinja
