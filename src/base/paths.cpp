#include "base/paths.h"

#include <cstdlib>

namespace strata {

std::filesystem::path strata_home() {
  if (const char* home = std::getenv("STRATA_HOME"); home != nullptr && *home != '\0') return home;
  const char* user = std::getenv("HOME");
  return std::filesystem::path(user != nullptr && *user != '\0' ? user : "/tmp") / ".cache" /
         "strata";
}

std::filesystem::path models_folder() { return strata_home() / "models"; }

}  // namespace strata
