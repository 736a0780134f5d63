#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/gguf.h"

// Opening GGUF models that lie in one file or in several parts.

namespace strata {
namespace {

constexpr uint32_t kMaxParts = 9999;

// "NAME-00002-of-00005.gguf": part 2 (from 1) of 5, stem "NAME".
struct PartName {
  std::string stem;
  uint32_t part = 0;
  uint32_t count = 0;
};

std::optional<uint32_t> five_digits(std::string_view text) {
  uint32_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

std::optional<PartName> parse_part_name(std::string_view name) {
  constexpr std::string_view kPattern = "-00001-of-00002.gguf";
  if (name.size() <= kPattern.size()) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf")
    return std::nullopt;
  const auto part = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!part || !count || *part == 0 || *part > *count || *count > kMaxParts) return std::nullopt;
  return PartName{std::string(name.substr(0, name.size() - kPattern.size())), *part, *count};
}

struct OpenPart {
  std::unique_ptr<MappedFile> file;
  GgufContent content;
};

OpenPart open_part(const std::filesystem::path& path) {
  auto file = std::make_unique<MappedFile>(path);
  GgufContent content = parse_gguf(file->bytes(), file->path());
  file->check_intact();
  // The metadata were copied; a vocabulary of 262,144 tokens would keep 10 MB of pages.
  file->release_pages(file->bytes().first(
      std::min(file->bytes().size(), static_cast<size_t>(content.data_offset))));
  return {std::move(file), std::move(content)};
}

// Part `index` (from 0) of `count` must say that it is just that.
void check_part(const GgufMetadata& metadata, uint32_t index, uint32_t count) {
  if (const uint32_t got = metadata.get_u32("split.count"); got != count)
    metadata.refuse("split.count",
                    fmt::format("is {}, wanted {} as in the file's name", got, count));
  if (const uint32_t got = metadata.get_u32("split.no"); got != index)
    metadata.refuse("split.no", fmt::format("is {}, wanted {} as in the file's name", got, index));
}

std::unique_ptr<GgufStore> store_of(OpenPart first) {
  auto metadata = std::make_shared<const GgufMetadata>(std::move(first.content.metadata));
  auto store = std::make_unique<GgufStore>(first.content.version, std::move(metadata));
  store->add_file(std::move(first.file), std::move(first.content.tensors));
  return store;
}

}  // namespace

std::unique_ptr<GgufStore> open_gguf(const std::filesystem::path& path) {
  OpenPart named = open_part(path);
  const GgufMetadata& metadata = named.content.metadata;
  const auto name = parse_part_name(path.filename().string());
  const uint32_t count = metadata.find_u32("split.count").value_or(1);
  if (count <= 1) {
    if (name && name->count > 1)
      metadata.refuse("split.count", fmt::format("says the file is whole, its name says part {} of "
                                                 "{}; rename it or fetch all parts",
                                                 name->part, name->count));
    return store_of(std::move(named));
  }
  if (!name)
    metadata.refuse("split.count", fmt::format("is {}, so the file must be named like "
                                               "NAME-00001-of-{:05}.gguf beside its other parts",
                                               count, count));
  check_part(metadata, name->part - 1, name->count);

  std::unique_ptr<GgufStore> store;
  for (uint32_t part = 1; part <= name->count; ++part) {
    OpenPart opened;
    if (part == name->part) {
      opened = std::move(named);  // NOLINT(bugprone-use-after-move): in one turn only
    } else {
      opened = open_part(path.parent_path() /
                         fmt::format("{}-{:05}-of-{:05}.gguf", name->stem, part, name->count));
      check_part(opened.content.metadata, part - 1, name->count);
    }
    if (!store)
      store = store_of(std::move(opened));
    else
      store->add_file(std::move(opened.file), std::move(opened.content.tensors));
  }
  constexpr std::string_view kTotal = "split.tensors.count";
  if (const auto total = store->metadata().find_u64(kTotal);
      total && *total != store->tensors().size())
    store->metadata().refuse(
        kTotal, fmt::format("is {}, the parts have {}", *total, store->tensors().size()));
  return store;
}

}  // namespace strata
