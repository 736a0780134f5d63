#include "engine/prefix_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/replace_file.h"
#include "base/sha256.h"

namespace strata {
namespace {

constexpr std::string_view kMagic = "strata-kv 2\n";
constexpr size_t kDigest = 64;
constexpr size_t kMostValues = 50'000'000;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t bytes_of_pages(const KvPool& pool, const PrefixCache::View& node) {
  int64_t bytes = 0;
  for (size_t g = 0; g < node.pages.size(); ++g)
    if (node.pages[g] >= 0) bytes += pool.shape().page_bytes(g);
  return bytes;
}

// The nodes to write, in their order: the most recently used ones that fit, each with its
// ancestors.
std::vector<bool> choose(const KvPool& pool, const std::vector<PrefixCache::View>& nodes,
                         const std::vector<bool>& allowed, int64_t most_bytes) {
  std::vector<size_t> by_use(nodes.size());
  std::iota(by_use.begin(), by_use.end(), size_t{0});
  std::stable_sort(by_use.begin(), by_use.end(),
                   [&](size_t a, size_t b) { return nodes[a].used > nodes[b].used; });
  std::vector<bool> chosen(nodes.size(), false);
  int64_t left = most_bytes;
  for (const size_t i : by_use) {
    int64_t bytes = 0;
    bool whole = true;
    for (int64_t at = static_cast<int64_t>(i); at >= 0;
         at = nodes[static_cast<size_t>(at)].parent) {
      const auto place = static_cast<size_t>(at);
      if (!chosen[place]) bytes += bytes_of_pages(pool, nodes[place]);
      whole = whole && allowed[place];
    }
    if (!whole || bytes > left) continue;
    left -= bytes;
    for (int64_t at = static_cast<int64_t>(i); at >= 0; at = nodes[static_cast<size_t>(at)].parent)
      chosen[static_cast<size_t>(at)] = true;
  }
  return chosen;
}

// Writes and sums up.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : file_(path) {}
  void write(std::string_view text) {
    sum_.update(text);
    file_.write(text);
    bytes_ += static_cast<int64_t>(text.size());
  }
  int64_t commit() {
    file_.write(sum_.hex_digest());
    file_.commit();
    return bytes_ + static_cast<int64_t>(kDigest);
  }

 private:
  ReplaceFile file_;
  Sha256 sum_;
  int64_t bytes_ = 0;
};

// The checked parts of a file.
struct Parts {
  OrderedJson header;
  std::span<const std::byte> pages;
};

Parts open_parts(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  const auto damaged = [&](const char* why) {
    fail(ErrorCode::data_corrupt, "{}: {}: not a file of keys and values, or a damaged one",
         file.path(), why);
  };
  constexpr size_t kFixed = kMagic.size() + sizeof(uint64_t);
  if (bytes.size() < kFixed + kDigest || text_of(bytes.first(kMagic.size())) != kMagic)
    damaged("its beginning");
  Sha256 sum;
  sum.update(bytes.first(bytes.size() - kDigest));
  if (text_of(bytes.last(kDigest)) != sum.hex_digest()) damaged("its checksum");
  file.check_intact();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof(length));
  if (length > bytes.size() - kFixed - kDigest) damaged("the length of its header");
  JsonLimits limits;
  limits.max_values = kMostValues;
  Parts parts;
  try {
    parts.header =
        parse_ordered_json(text_of(bytes.subspan(kFixed, static_cast<size_t>(length))), limits);
  } catch (const Error&) {
    damaged("its header");
  }
  parts.pages = bytes.subspan(kFixed + length, bytes.size() - kFixed - length - kDigest);
  return parts;
}

struct ReadNode {
  PrefixCache::View view;  // pages still without numbers
  std::string owner;
  std::vector<size_t> at;  // by group: where the page's bytes begin; npos: none
};
constexpr size_t kNowhere = SIZE_MAX;

std::vector<ReadNode> read_nodes(const Parts& parts, const KvPool& pool, int64_t vocabulary,
                                 const std::string& path) {
  const auto check = [&](bool right, const char* what) {
    if (!right) fail(ErrorCode::data_corrupt, "{}: node with a wrong {}", path, what);
  };
  const size_t groups = pool.shape().groups.size();
  const auto page_tokens = static_cast<size_t>(pool.shape().page_tokens);
  std::vector<ReadNode> nodes;
  size_t offset = 0;
  for (const OrderedJson& json : parts.header.at("nodes")) {
    ReadNode node;
    node.view.parent = json.at("parent").get<int64_t>();
    check(node.view.parent >= -1 && node.view.parent < static_cast<int64_t>(nodes.size()),
          "parent");
    if (node.view.parent >= 0)
      check(nodes[static_cast<size_t>(node.view.parent)].view.tokens.size() == page_tokens,
            "parent");
    node.owner = json.at("owner").get<std::string>();
    node.view.tokens = json.at("tokens").get<std::vector<TokenId>>();
    check(!node.view.tokens.empty() && node.view.tokens.size() <= page_tokens, "number of tokens");
    for (const TokenId id : node.view.tokens) check(id >= 0 && id < vocabulary, "token");
    node.view.used = json.at("used").get<uint64_t>();
    const auto pages = json.at("pages").get<std::vector<bool>>();
    check(pages.size() == groups, "number of pages");
    node.view.pages.assign(groups, -1);
    node.at.assign(groups, kNowhere);
    for (size_t g = 0; g < groups; ++g) {
      check(pages[g] || pool.shape().groups[g].window > 0, "page left out");
      if (!pages[g]) continue;
      node.at[g] = offset;
      offset += static_cast<size_t>(pool.shape().page_bytes(g));
    }
    nodes.push_back(std::move(node));
  }
  check(offset == parts.pages.size(), "number of bytes");
  return nodes;
}

}  // namespace

int64_t write_prefixes(const std::filesystem::path& path, const PrefixFile& file,
                       const KvPool& pool, const std::vector<PrefixCache::View>& nodes,
                       const OwnerOfSalt& owner, int64_t most_bytes) {
  std::vector<bool> allowed(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) allowed[i] = owner(nodes[i].salt).has_value();
  const std::vector<bool> chosen = choose(pool, nodes, allowed, most_bytes);
  OrderedJson header;
  header["made_by"] = file.made_by;
  header["tokens"] = file.tokens;
  header["nodes"] = OrderedJson::array();
  std::vector<int64_t> places(nodes.size(), -1);
  int64_t count = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!chosen[i]) continue;
    const PrefixCache::View& node = nodes[i];
    places[i] = count++;
    std::vector<bool> pages;
    for (const int32_t page : node.pages) pages.push_back(page >= 0);
    OrderedJson one;
    one["parent"] = node.parent < 0 ? -1 : places[static_cast<size_t>(node.parent)];
    one["owner"] = *owner(node.salt);
    one["tokens"] = node.tokens;
    one["pages"] = pages;
    one["used"] = node.used;
    header["nodes"].push_back(std::move(one));
  }
  const std::string text = to_json_text(header);
  const uint64_t length = text.size();
  Writer out(path);
  out.write(kMagic);
  out.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  out.write(text);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t g = 0; chosen[i] && g < nodes[i].pages.size(); ++g)
      if (nodes[i].pages[g] >= 0) out.write(text_of(pool.page_memory(g, nodes[i].pages[g])));
  return out.commit();
}

std::vector<TokenId> read_prefixes(const std::filesystem::path& path, const OrderedJson& made_by,
                                   KvPool& pool, PrefixCache& cache, const SaltOfOwner& salt,
                                   int64_t vocabulary) {
  const MappedFile file(path);
  const Parts parts = open_parts(file);
  std::vector<ReadNode> nodes;
  std::vector<TokenId> tokens;
  try {
    if (parts.header.at("made_by") != made_by)
      fail(ErrorCode::unsupported, "{}: made by {}, this is {}", path.string(),
           to_json_text(parts.header.at("made_by")), to_json_text(made_by));
    tokens = parts.header.at("tokens").get<std::vector<TokenId>>();
    for (const TokenId id : tokens)
      if (id < 0 || id >= vocabulary)
        fail(ErrorCode::data_corrupt, "{}: token {}, the vocabulary has {}", path.string(), id,
             vocabulary);
    nodes = read_nodes(parts, pool, vocabulary, path.string());
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::data_corrupt, "{}: its header: {}", path.string(), e.what());
  }

  // What belongs to nobody here, or finds no page, is left out with all that hangs on it.
  std::vector<PrefixCache::View> kept;
  const auto give_back = [&](const PrefixCache::View& view) {
    for (size_t g = 0; g < view.pages.size(); ++g)
      if (view.pages[g] >= 0) pool.release_page(g, view.pages[g]);
  };
  std::vector<int64_t> places(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    ReadNode& node = nodes[i];
    const std::optional<uint32_t> own = salt(node.owner);
    const bool hangs = node.view.parent < 0 || places[static_cast<size_t>(node.view.parent)] >= 0;
    if (!own || !hangs) continue;
    node.view.salt = *own;
    if (node.view.parent >= 0) node.view.parent = places[static_cast<size_t>(node.view.parent)];
    bool room = true;
    for (size_t g = 0; g < node.at.size() && room; ++g) {
      if (node.at[g] == kNowhere) continue;
      const std::optional<int32_t> page = pool.new_page(g);
      room = page.has_value();
      if (!room) break;
      node.view.pages[g] = *page;
      const std::span<std::byte> memory = pool.page_memory(g, *page);
      std::memcpy(memory.data(), parts.pages.data() + node.at[g], memory.size());
    }
    if (!room) {
      give_back(node.view);
      continue;
    }
    places[i] = static_cast<int64_t>(kept.size());
    kept.push_back(std::move(node.view));
  }
  try {
    file.check_intact();  // what was copied was there
  } catch (...) {
    for (const PrefixCache::View& view : kept) give_back(view);
    throw;
  }
  cache.restore(kept);
  return tokens;
}

}  // namespace strata
