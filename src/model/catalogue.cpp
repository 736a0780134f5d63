#include "model/catalogue.h"

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/paths.h"
#include "model/catalogue_data.h"
#include "model/model.h"

namespace strata {

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> entries = [] {
    std::vector<CatalogueEntry> result;
    const Json models = parse_json(kCatalogueJson).at("models");
    for (const Json& m : models) {
      CatalogueEntry e;
      e.name = m.at("name").get<std::string>();
      e.architecture = m.at("architecture").get<std::string>();
      e.file = m.at("file").get<std::string>();
      e.bytes = m.at("bytes").get<uint64_t>();
      e.sha256 = m.at("sha256").get<std::string>();
      e.license = m.at("license").get<std::string>();
      e.is_default = m.value("default", false);
      result.push_back(e);
    }
    return result;
  }();
  return entries;
}

const std::string& default_model() {
  for (const CatalogueEntry& entry : catalogue())
    if (entry.is_default) return entry.name;
  fail(ErrorCode::internal, "catalogue: no model is the default");
}

std::filesystem::path resolve_model_path(const std::string& what) {
  std::error_code ignored;
  std::string names;
  for (const CatalogueEntry& entry : catalogue()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
    if (entry.name != what) continue;
    const std::filesystem::path path = models_folder() / entry.file;
    if (std::filesystem::exists(path, ignored)) return path;
    // A folder or file that happens to have the name is meant only when the model is not here.
    if (std::filesystem::exists(what, ignored)) return what;
    fail(ErrorCode::not_found,
         "model '{}' is not here yet ({}): fetch it with scripts/get-model {}", what, path.string(),
         what);
  }
  if (std::filesystem::exists(what, ignored)) return what;
  fail(ErrorCode::not_found,
       "model '{}': there is no such file or folder, and the catalogue has {} (fetched with "
       "scripts/get-model NAME)",
       what, names);
}

}  // namespace strata
