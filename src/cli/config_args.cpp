#include "cli/config_args.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/core.h>

#include "base/config_file.h"
#include "base/error.h"

namespace strata::cli {
namespace {

constexpr const char* kConfig = "config";

std::string environment_name(std::string option) {
  for (char& c : option)
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "STRATA_" + option;
}

bool is_given(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& a) { return a == flag || a.starts_with(flag + "="); });
}

// The file that --config names; removes it from the arguments.
std::string take_config(std::vector<std::string>& arguments) {
  const std::string flag = std::string("--") + kConfig;
  for (auto it = arguments.begin(); it != arguments.end(); ++it) {
    if (it->starts_with(flag + "=")) {
      std::string path = it->substr(flag.size() + 1);
      arguments.erase(it);
      return path;
    }
    if (*it == flag && it + 1 != arguments.end()) {
      std::string path = *(it + 1);
      arguments.erase(it, it + 2);
      return path;
    }
  }
  return {};
}

void add_entry(const CLI::Option& option, const ConfigEntry& entry, const std::string& where,
               std::vector<std::string>& out) {
  const std::string flag = "--" + entry.key;
  if (option.get_items_expected_max() == 0) {  // a flag
    if (entry.values != std::vector<std::string>{"true"} &&
        entry.values != std::vector<std::string>{"false"})
      fail(ErrorCode::invalid_argument, "{}: {}: wanted true or false", where, entry.key);
    if (entry.values.front() == "true") out.push_back(flag);
    return;
  }
  for (const std::string& value : entry.values) out.push_back(fmt::format("{}={}", flag, value));
}

}  // namespace

void add_environment_and_config(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    option->envname(environment_name(option->get_lnames().front()));
  }
  // Taken out of the arguments before they are parsed; here for --help.
  command
      .add_option(std::string("--") + kConfig,
                  "a TOML file with these options' names as keys (kv-memory = \"2GiB\")")
      ->type_name("FILE")
      ->expected(1);
}

std::vector<std::string> with_config_file(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const CLI::App* command = nullptr;
  for (const CLI::App* sub : app.get_subcommands({}))
    if (sub->get_name() == arguments.front()) command = sub;
  if (command == nullptr || command->get_option_no_throw(std::string("--") + kConfig) == nullptr)
    return arguments;
  const std::string path = take_config(arguments);
  if (path.empty()) return arguments;
  for (const ConfigEntry& entry : read_config_file(path)) {
    const std::string where = fmt::format("{}:{}", path, entry.line);
    const CLI::Option* option = command->get_option_no_throw("--" + entry.key);
    if (option == nullptr || entry.key == kConfig || entry.key == "help")
      fail(ErrorCode::invalid_argument,
           "{}: unknown key '{}'; the keys are the options of strata {} --help", where, entry.key,
           command->get_name());
    if (is_given(arguments, "--" + entry.key)) continue;
    if (std::getenv(environment_name(entry.key).c_str()) != nullptr) continue;
    add_entry(*option, entry, where, arguments);
  }
  return arguments;
}

}  // namespace strata::cli
