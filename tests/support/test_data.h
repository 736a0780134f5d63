#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/paths.h"

// Texts, traces and real models that the project does not commit. A test asks for them by name and
// is skipped without them; with STRATA_REQUIRE_DATA=1 that is a failure. Use at the top of a test:
//
//   const std::filesystem::path text = strata::testing::test_data_path("wikitext2-test.txt");
//   STRATA_NEEDS(text);

namespace strata::testing {

// $STRATA_TEST_DATA, else ../shared/data seen from the project's root (where ctest runs the tests).
inline std::filesystem::path test_data_folder() {
  const char* folder = std::getenv("STRATA_TEST_DATA");
  return folder != nullptr && *folder != '\0' ? folder : "../shared/data";
}

inline std::filesystem::path test_data_path(std::string_view name) {
  return test_data_folder() / name;
}

// The cases beside the data: case_path("common/chain.gguf").
inline std::filesystem::path case_path(std::string_view name) {
  return test_data_folder() / ".." / "cases" / name;
}

// The file of a model of data/catalogue.json: model_path("smollm2-135m"). Empty for an unknown
// name.
inline std::filesystem::path model_path(std::string_view name) {
  std::ifstream file("data/catalogue.json");
  const Json catalogue = Json::parse(file);
  for (const Json& model : catalogue.at("models")) {
    if (model.at("name") == name) return models_folder() / model.at("file").get<std::string>();
  }
  return {};
}

// A committed golden: golden_path("tokenizer/smollm2.json").
inline std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path("tests/golden") / name;
}

inline bool data_is_required() {
  const char* required = std::getenv("STRATA_REQUIRE_DATA");
  return required != nullptr && std::string_view(required) == "1";
}

}  // namespace strata::testing

// Skips (or, with STRATA_REQUIRE_DATA=1, fails) the running test unless the file or folder is
// there.
#define STRATA_NEEDS(path)                                                                 \
  do {                                                                                     \
    if (!std::filesystem::exists(path)) {                                                  \
      if (::strata::testing::data_is_required()) FAIL() << "missing: " << (path).string(); \
      GTEST_SKIP() << "missing data: " << (path).string();                                 \
    }                                                                                      \
  } while (false)
