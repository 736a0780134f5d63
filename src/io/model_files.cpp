#include "io/model_files.h"

#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "io/gguf.h"
#include "io/safetensors.h"

namespace strata {
namespace {

bool begins_as_gguf(const std::filesystem::path& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == "GGUF";
}

}  // namespace

std::unique_ptr<TensorStore> open_model_files(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status))
    fail(ErrorCode::not_found, "{}: no such file or folder", path.string());
  if (std::filesystem::is_directory(status)) return open_safetensors(path);
  const std::string name = path.filename().string();
  if (name.ends_with(".gguf")) return open_gguf(path);
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
    return open_safetensors(path);
  // Caches keep files under names without an ending.
  if (std::filesystem::is_regular_file(status) && begins_as_gguf(path)) return open_gguf(path);
  fail(ErrorCode::unsupported,
       "{}: no model file; wanted a .gguf, a .safetensors or a folder with config.json and "
       "safetensors",
       path.string());
}

}  // namespace strata
