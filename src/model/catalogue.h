#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

// A model that scripts/get-model can fetch; data/catalogue.json, embedded at build.
struct CatalogueEntry {
  std::string name;
  std::string architecture;
  std::string file;  // in the models folder
  uint64_t bytes = 0;
  std::string sha256;
  std::string license;
  bool is_default = false;
};

const std::vector<CatalogueEntry>& catalogue();

// The name of the model that is meant where none is named.
const std::string& default_model();

}  // namespace strata
