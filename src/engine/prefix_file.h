#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/kv_pool.h"
#include "engine/prefix_cache.h"

namespace strata {

// Keys and values of a prefix cache in a file:
//
//   "strata-kv 2\n"
//   length of the header in bytes, u64 little-endian
//   the header, JSON: {"made_by": PrefixFile::made_by, "tokens": [..], "nodes": [{"parent": place
//     in this list or -1, "owner": text, "tokens": [1..S ids], "pages": [true | false for each
//     group], "used": order of last use}]}
//   for each node and each group with a page, the page's bytes (KvPool::page_memory)
//   sha256 of everything before, 64 hexadecimal digits
//
// Nothing in it is trusted: a file that is cut, altered, or made by another model, instruction-set
// level, KV type or page size gives Error{data_corrupt} or Error{unsupported}, and changes
// nothing.
struct PrefixFile {
  // What the bytes depend on; equal or of no use.
  OrderedJson made_by;
  // Of a session: all its tokens, also those without keys and values.
  std::vector<TokenId> tokens = {};
};

// Writes the nodes, least recently used ones left out until the pages take at most `most_bytes`.
// owner: what is written for a salt; nullopt: nodes of that salt are left out. Returns the bytes of
// the file. Throws as ReplaceFile.
using OwnerOfSalt = std::function<std::optional<std::string>(uint32_t salt)>;
int64_t write_prefixes(const std::filesystem::path& path, const PrefixFile& file,
                       const KvPool& pool, const std::vector<PrefixCache::View>& nodes,
                       const OwnerOfSalt& owner, int64_t most_bytes);

// Reads what has room in the pool beside what is there. salt: for an owner; nullopt: its nodes are
// left out. vocabulary: ids from 0 to this. Returns the session's tokens.
using SaltOfOwner = std::function<std::optional<uint32_t>(const std::string& owner)>;
std::vector<TokenId> read_prefixes(const std::filesystem::path& path, const OrderedJson& made_by,
                                   KvPool& pool, PrefixCache& cache, const SaltOfOwner& salt,
                                   int64_t vocabulary);

}  // namespace strata
