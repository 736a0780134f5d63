#include "base/config_file.h"

// Some malformed files ("[= 1") break the library's assertions, which would end the process; the
// checks behind the assertions then refuse those files properly (fuzzed:
// tests/fuzz/config_fuzz.cpp).
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

constexpr size_t kMaxBytes = 1u << 20;

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// nullopt: not a kind of value that options have.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_integer()) return fmt::format("{}", v->get());
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  if (const auto* v = node.as_floating_point(); v != nullptr && std::isfinite(v->get())) {
    return fmt::format("{}", v->get());
  }
  return std::nullopt;
}

// The library has undefined behaviour where a character outside ASCII stands outside strings and
// comments (toml++ 3.3, its test for blanks), where TOML never allows one; so these are refused
// here. Behind the first error of a file this scan may be out of step, but then the file is refused
// for that error.
void require_ascii_syntax(std::string_view text, const std::string& name) {
  int line = 1;
  size_t at = text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;  // a byte order mark
  std::string_view closing;  // what ends the string or comment we are in
  while (at < text.size()) {
    const char c = text[at];
    const bool escape = c == '\\' && !closing.empty() && closing[0] == '"' && at + 1 < text.size();
    if (escape && text[at + 1] != '\n') {
      at += 2;
      continue;
    }
    if (!closing.empty()) {
      const bool one_line_string_broken = c == '\n' && closing.size() == 1;
      if (one_line_string_broken || text.substr(at, closing.size()) == closing) {
        if (c != '\n') at += closing.size();
        closing = {};
        continue;
      }
    } else if (c == '"' || c == '\'') {
      closing = c == '"' ? "\"\"\"" : "'''";
      if (text.substr(at, 3) != closing) closing = closing.substr(0, 1);
      at += closing.size();
      continue;
    } else if (c == '#') {
      closing = "\n";
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      fail(ErrorCode::invalid_argument,
           "{}:{}: a character outside ASCII is not in quotes; keys and strings with it need them",
           name, line);
    }
    line += c == '\n' ? 1 : 0;
    ++at;
  }
}

void add_table(const toml::table& table, const std::string& prefix, const std::string& name,
               std::vector<ConfigEntry>& out) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      add_table(*inner, full + ".", name, out);
      continue;
    }
    ConfigEntry entry{full, {}, node.is_array(), line_of(node)};
    const auto add = [&](const toml::node& value) {
      std::optional<std::string> text = scalar_text(value);
      if (!text) {
        fail(ErrorCode::invalid_argument,
             "{}:{}: {}: wanted a string, a finite number, true, false, or an array of those", name,
             line_of(value), full);
      }
      entry.values.push_back(std::move(*text));
    };
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) add(element);
    } else {
      add(node);
    }
    out.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& name) {
  require_ascii_syntax(text, name);
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    fail(ErrorCode::invalid_argument, "{}:{}: {}", name, e.source().begin.line, e.description());
  }
  std::vector<ConfigEntry> entries;
  add_table(table, "", name, entries);
  // The library sorts by key.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const ConfigEntry& a, const ConfigEntry& b) { return a.line < b.line; });
  return entries;
}

std::vector<ConfigEntry> read_config_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file.eof() && file.gcount() == 0)) {
    fail(ErrorCode::not_found, "config: {} cannot be read", path.string());
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxBytes) {
    fail(ErrorCode::invalid_argument, "config: {} is longer than {} bytes", path.string(),
         kMaxBytes);
  }
  return parse_config(text, path.string());
}

void require_known_keys(std::span<const ConfigEntry> entries,
                        std::span<const std::string_view> known, const std::string& name) {
  for (const ConfigEntry& entry : entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      fail(ErrorCode::invalid_argument, "{}:{}: unknown key {}", name, entry.line, entry.key);
    }
  }
}

}  // namespace strata
