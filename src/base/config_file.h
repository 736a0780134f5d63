#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// One `key = value` of a TOML file. Keys of tables are joined by dots: `[a]` `b = 1` is "a.b".
struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;  // one, or the elements of an array
  bool is_list = false;
  int line = 0;  // 1-based
};

// A TOML file as text values, which the reader of the options checks as it checks flags: strings as
// they are, integers in decimal, floats shortest, booleans "true" and "false". In the file's order.
// Throws Error{invalid_argument} "NAME:LINE: ..." for what is no TOML and for dates, tables in
// arrays, arrays in arrays, infinities and NaN, which no option takes.
std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& name);
// Error{not_found} if it cannot be read, Error{invalid_argument} above 1 MiB.
std::vector<ConfigEntry> read_config_file(const std::filesystem::path& path);

// Throws Error{invalid_argument} naming the line of the first entry whose key is not known.
void require_known_keys(std::span<const ConfigEntry> entries,
                        std::span<const std::string_view> known, const std::string& name);

}  // namespace strata
