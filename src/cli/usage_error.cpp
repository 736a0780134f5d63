#include "cli/usage_error.h"

#include <fmt/core.h>

namespace strata::cli {
namespace {

// The innermost command that was recognised, and its name with those it belongs to; the program
// itself has none.
struct Meant {
  const CLI::App* command;
  std::string name;
};

Meant meant_command(const CLI::App& program) {
  Meant meant{&program, {}};
  while (!meant.command->get_subcommands().empty()) {
    meant.command = meant.command->get_subcommands().back();
    meant.name += (meant.name.empty() ? "" : " ") + meant.command->get_name();
  }
  return meant;
}

std::string names_of_subcommands(const CLI::App& command) {
  std::string names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + sub->get_name();
  return names;
}

}  // namespace

std::string usage_error(const CLI::App& program, const CLI::Error& error) {
  const Meant meant = meant_command(program);
  const std::string subcommands = names_of_subcommands(*meant.command);
  const std::vector<std::string> unknown = program.remaining(true);
  std::string what = error.what();
  if (!subcommands.empty()) {
    what = fmt::format("got {}, wanted one of {}",
                       unknown.empty() ? "no command" : fmt::format("'{}'", unknown.front()),
                       subcommands);
  } else if (!unknown.empty()) {
    const bool option = unknown.front().front() == '-';
    what = fmt::format("got {}'{}', which it does not take", option ? "the option " : "",
                       unknown.front());
  }
  const std::string& program_name = program.get_name();
  if (meant.name.empty())
    return fmt::format("{0}: error: {1}\n'{0} --help' explains what it takes\n", program_name,
                       what);
  return fmt::format("{0}: error: {1}: {2}\n'{0} {1} --help' explains what it takes\n",
                     program_name, meant.name, what);
}

}  // namespace strata::cli
