#pragma once

#include <filesystem>

namespace strata {

// $STRATA_HOME, else ~/.cache/strata. Not created here.
std::filesystem::path strata_home();
// strata_home() / "models".
std::filesystem::path models_folder();

}  // namespace strata
