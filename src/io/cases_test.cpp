// The broken files of cases C13 (GGUF) and C15 (safetensors), where those folders are at hand: the
// test data's neighbour `cases`. Our own versions of these files are in gguf_test.cpp and
// safetensors_test.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "io/gguf.h"
#include "io/model_files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// The folder of a case, or an empty path when it is not there.
fs::path case_folder(const std::string& name) {
  const char* data = std::getenv("STRATA_TEST_DATA");
  const fs::path folder =
      (data != nullptr ? fs::path(data) / ".." : fs::path("../shared")) / "cases" / name;
  return fs::is_directory(folder) ? folder : fs::path();
}

bool data_is_required() {
  const char* value = std::getenv("STRATA_REQUIRE_DATA");
  return value != nullptr && std::string(value) == "1";
}

#define STRATA_CASE_OR_SKIP(folder, name)                             \
  const fs::path folder = case_folder(name);                          \
  if ((folder).empty()) {                                             \
    ASSERT_FALSE(data_is_required()) << "case " name " is not there"; \
    GTEST_SKIP() << "case " name " is not there";                     \
  }

int64_t peak_memory_kib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// The message with which `path` is refused; it must come fast, in little memory, on one line, and
// name the file.
std::string refusal(const fs::path& path) {
  const int64_t memory_before = peak_memory_kib();
  const auto start = std::chrono::steady_clock::now();
  std::string message = "loaded";
  try {
    open_model_files(path);
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ErrorCode::data_corrupt || e.code() == ErrorCode::unsupported);
    message = e.what();
    EXPECT_THAT(message, testing::HasSubstr(path.filename().string()));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  // Bounds of the case, with slack for a busy machine: a hang or petabytes would break them.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << path;
  EXPECT_LT(peak_memory_kib() - memory_before, 200 * 1024) << path;
  return message;
}

// Each file of the folder whose name begins with a key of `wanted` is refused with those words, and
// every key has one; the other files load.
void expect_refusals(const fs::path& folder, const std::string& extension,
                     const std::map<std::string, std::string>& wanted) {
  int refused = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != extension) continue;
    const std::string message = refusal(entry.path());
    const auto want = wanted.find(name.substr(0, 3));
    if (want == wanted.end()) {
      EXPECT_EQ(message, "loaded") << name;
    } else {
      EXPECT_THAT(message, testing::HasSubstr(want->second)) << name;
      ++refused;
    }
  }
  EXPECT_EQ(refused, static_cast<int>(wanted.size()));
}

TEST(Cases, C13BrokenGguf) {
  STRATA_CASE_OR_SKIP(folder, "C13");
  // What the message must say. a17 and a19 to a24 are whole files whose values do not make a model:
  // the model's configuration and the tokenizer refuse them.
  const std::map<std::string, std::string> wanted = {
      {"a01", "no GGUF file"},
      {"a02", "big-endian"},
      {"a03", "version 999"},
      {"a04", "empty"},
      {"a05", "byte offset 4"},
      {"a06", "9223372036854775808 metadata keys"},
      {"a07", "4294967296 metadata keys"},
      {"a08", "9223372036854775808 tensors"},
      {"a09", "18446744073709551615 tensors"},
      {"a10", "metadata key at byte offset"},
      {"a11", "'general.name'"},
      {"a12", "'x.numbers'"},
      {"a13", "'x.nested'"},
      {"a14", "'x.odd'"},
      {"a15", "'x.odd'"},
      {"a16", "duplicate metadata key 'general.architecture'"},
      {"a18", "byte offset"},
  };
  expect_refusals(folder, ".gguf", wanted);
  const auto store = open_gguf(folder / "a17-block-count-is-text.gguf");
  EXPECT_THROW(store->metadata().get_u32("llama.block_count"), Error);
}

TEST(Cases, C15BrokenSafetensors) {
  STRATA_CASE_OR_SKIP(folder, "C15");
  const std::map<std::string, std::string> wanted = {
      {"s01", "cut short"},
      {"s02", "cut short"},
      {"s03", "header length is 0"},
      {"s04", "header length is 9223372036854775808"},
      {"s05", "header length is 18446744073709551615"},
      {"s06", "cut short"},
      {"s07", "header length is 150000000"},
      {"s08", "this is not"},
      {"s09", "[1,2,3]"},
      {"s10", "JSON at byte offset"},
      {"s11", "wanted '{'"},
      {"s12", "duplicate name"},
      {"s13", "UTF-8"},
      {"s14", "path"},
      {"s15", "wanted a string"},
      {"s16", "after the end"},
      {"s17", "pointer file"},
      {"s18", "web page"},
      {"s19", "zip"},
      {"s20", "NaN"},
  };
  expect_refusals(folder, ".safetensors", wanted);
}

}  // namespace
}  // namespace strata
