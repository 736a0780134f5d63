#include <fmt/core.h>

#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "io/json_scanner.h"
#include "io/message_text.h"
#include "io/safetensors.h"

// Opening safetensors models that lie in one file or in shards with an index.

namespace strata {
namespace {

constexpr size_t kMaxShards = 2048;
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

void add_shard(SafetensorsStore& store, const std::filesystem::path& path) {
  auto file = std::make_unique<MappedFile>(path);
  SafetensorsContent content = parse_safetensors(file->bytes(), file->path());
  file->check_intact();
  store.add(std::move(file), std::move(content));
}

// The index names files beside it and nothing else.
bool is_plain_shard_name(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.ends_with(kEnding) &&
         name.find_first_of("/\\") == std::string_view::npos && !name.starts_with('.');
}

// weight_map of the index: tensor name to shard name.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxSafetensorsHeader)
    fail(ErrorCode::data_corrupt, "{}: {} bytes, wanted at most {}", file.path(), bytes.size(),
         kMaxSafetensorsHeader);
  std::map<std::string, std::string> weight_map;
  JsonScanner json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path(), 0);
  json.read_object([&](const std::string& key) {
    if (key != "weight_map") return json.skip_value();
    json.read_object([&](std::string name) {
      std::string shard = json.read_string();
      if (!is_plain_shard_name(shard))
        json.refuse(
            "tensor {}: shard {}, wanted the plain name of a .safetensors file beside the "
            "index",
            in_quotes(name), in_quotes(shard));
      weight_map.emplace(std::move(name), std::move(shard));
    });
  });
  json.expect_end();
  file.check_intact();
  if (weight_map.empty())
    fail(ErrorCode::data_corrupt, "{}: weight_map is missing or empty", file.path());
  return weight_map;
}

void add_shards(SafetensorsStore& store, const std::filesystem::path& index) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  if (shards.size() > kMaxShards)
    fail(ErrorCode::unsupported, "{}: {} shards, wanted at most {}", index.string(), shards.size(),
         kMaxShards);
  for (const std::string& shard : shards) add_shard(store, index.parent_path() / shard);

  for (const auto& [name, shard] : weight_map) {
    if (store.unread().contains(name)) continue;
    const StoredTensor* tensor = store.find(name);
    if (tensor == nullptr ||
        std::filesystem::path(store.files()[static_cast<size_t>(tensor->file)]).filename() != shard)
      fail(ErrorCode::data_corrupt, "{}: weight_map says tensor {} is in {}, it is not there",
           index.string(), in_quotes(name), shard);
  }
}

}  // namespace

void SafetensorsStore::add(std::unique_ptr<MappedFile> file, SafetensorsContent content) {
  add_file(std::move(file), std::move(content.tensors));
  for (auto& [name, dtype] : content.unread) add_unread(std::move(name), std::move(dtype));
  metadata_.merge(content.metadata);
}

std::unique_ptr<SafetensorsStore> open_safetensors(const std::filesystem::path& path) {
  auto store = std::make_unique<SafetensorsStore>();
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(path / kSingle))
      add_shard(*store, path / kSingle);
    else if (std::filesystem::exists(path / kIndex))
      add_shards(*store, path / kIndex);
    else
      fail(ErrorCode::not_found, "{}: the folder has neither {} nor {}", path.string(), kSingle,
           kIndex);
  } else if (path.filename().string().ends_with(".index.json")) {
    add_shards(*store, path);
  } else {
    add_shard(*store, path);
  }
  if (!store->unread().empty()) {
    const auto& [name, dtype] = *store->unread().begin();
    log_warning(
        "{}: {} tensors have types strata does not read and are left out, the first is {} ({})",
        path.string(), store->unread().size(), in_quotes(name), dtype);
  }
  return store;
}

}  // namespace strata
