#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "base/json.h"
#include "base/paths.h"
#include "cli/command.h"
#include "model/catalogue.h"

namespace strata::cli {
namespace {

// Here, and of the right size; the full check is scripts/get-model's.
bool is_here(const CatalogueEntry& entry) {
  std::error_code error;
  return std::filesystem::file_size(models_folder() / entry.file, error) == entry.bytes && !error;
}

int models_command(const GlobalOptions& global) {
  if (global.json) {
    OrderedJson out;
    out["folder"] = models_folder().string();
    out["models"] = OrderedJson::array();
    for (const CatalogueEntry& entry : catalogue())
      out["models"].push_back({{"name", entry.name},
                               {"architecture", entry.architecture},
                               {"bytes", entry.bytes},
                               {"license", entry.license},
                               {"file", entry.file},
                               {"here", is_here(entry)},
                               {"default", entry.is_default}});
    print_json(to_json_text(out));
    return kDone;
  }
  fmt::print("{:<20} {:<8} {:>9}  {:<5} {}\n", "name", "kind", "size", "here", "license");
  for (const CatalogueEntry& entry : catalogue())
    fmt::print("{:<20} {:<8} {:>6.0f} MB  {:<5} {}{}\n", entry.name, entry.architecture,
               static_cast<double>(entry.bytes) / 1e6, is_here(entry) ? "yes" : "-", entry.license,
               entry.is_default ? " (default)" : "");
  if (!global.quiet)
    fmt::print(stderr, "folder: {}; scripts/get-model NAME fetches one\n",
               models_folder().string());
  return kDone;
}

}  // namespace

void add_models(CLI::App& app, Run& run) {
  const auto global = std::make_shared<GlobalOptions>();
  CLI::App& command =
      *app.add_subcommand("models", "the catalogue: what there is and what is here");
  command.footer("Example: strata models --json");
  add_common_options(command, *global);
  command.callback([global, &run] { run = [global] { return models_command(*global); }; });
}

}  // namespace strata::cli
