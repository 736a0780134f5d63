#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/kv_pool.h"
#include "text/tokenizer.h"

namespace strata {

// Keys and values of prompts and answers seen before, for those that begin alike: a tree whose
// nodes are pages. A node holds at most the tokens of a page and, for each layer group, the page of
// their keys and values (-1: none); only a node with a full page has children. Children are in
// order of their tokens and found by comparing these, so there is no hash that could collide.
//
// Who may share: each node has a salt. A prompt's own pages carry the salt it came with; pages that
// lie wholly within one of the declared token sequences carry salt 0, which everybody finds.
//
// A hit of n tokens is valid where every layer group holds what a query at position n sees: all
// pages, or those of the window. Pages that only the tree holds are given back when the pool is
// short: in groups that keep everything the least recently used leaf goes as a whole, in windowed
// groups the least recently used page.
//
// Invariant: whoever holds a node's page of a group that keeps everything also holds those of its
// ancestors (insert() exchanges equal pages for the tree's), so every cached page can be given
// back.
//
// Costs O(pages of the prompt * log siblings); not for use by several threads at once.
class PrefixCache {
 public:
  static constexpr uint32_t kSharedSalt = 0;

  // Registers itself as the pool's reclaimer. shared: what every salt may share.
  explicit PrefixCache(KvPool& pool, std::vector<std::vector<TokenId>> shared = {});
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Gives the empty sequence `cache` the longest held beginning of `tokens`, at most `most` of
  // them; returns how many.
  int64_t find(int32_t cache, uint32_t salt, std::span<const TokenId> tokens, int64_t most);
  // Takes up what the sequence holds of `tokens`, whose first pool.length(cache) are its own.
  // `whole`: also a last page that is not full; only when the sequence will not write again.
  void insert(int32_t cache, uint32_t salt, std::span<const TokenId> tokens, bool whole);
  void clear();
  int64_t nodes() const { return nodes_; }

  // ---- For files ----
  // A node as it is written down.
  struct View {
    int64_t parent = -1;  // place of its parent in the list; -1: the root
    uint32_t salt = 0;
    std::vector<TokenId> tokens;
    std::vector<int32_t> pages;  // by group, -1: none
    uint64_t used = 0;           // larger: used later
  };
  // All nodes, parents before their children; or those that hold a beginning of `tokens`.
  std::vector<View> view() const;
  std::vector<View> view(uint32_t salt, std::span<const TokenId> tokens) const;
  // Adds nodes whose pages came from KvPool::new_page and hold the keys and values of their tokens;
  // the tree takes over the references. What it has already it gives back, and what had salt 0 and
  // is not declared now, with all that hangs on it; what is declared now gets salt 0.
  void restore(const std::vector<View>& nodes);

 private:
  struct Node {
    Node* parent = nullptr;
    uint32_t salt = 0;
    std::vector<TokenId> tokens;
    std::vector<int32_t> pages;  // by group
    uint64_t used = 0;
    std::vector<std::unique_ptr<Node>> children;  // by (salt, tokens)
  };
  struct Match {
    Node* node = nullptr;
    int64_t common = 0;  // tokens
  };
  // Nodes whose page of a group may be given back, by last use.
  using Candidates = std::set<std::pair<uint64_t, Node*>>;

  bool keeps_all(size_t group) const { return pool_.shape().groups[group].window == 0; }
  int64_t declared(std::span<const TokenId> tokens) const;
  uint32_t salt_of(int64_t page, int64_t declared, uint32_t salt) const;
  std::vector<std::optional<uint32_t>> salts_of(const std::vector<View>& nodes) const;
  static Match best_child(const Node& node, uint32_t salt, std::span<const TokenId> want);
  bool holds_all_seen(const std::vector<int64_t>& first_held, int64_t length) const;
  Node* add_child(Node& parent, uint32_t salt, std::span<const TokenId> tokens);
  void exchange_pages(Node& node, int32_t cache, size_t index);
  void take_pages(Node& node, int32_t cache, size_t index);
  bool is_candidate(const Node& node, size_t group) const;
  void touch(Node& node);
  void drop_page(Node& node, size_t group);
  Node& remove(Node& leaf);
  static bool has_pages(const Node& node);
  bool reclaim(size_t group);

  KvPool& pool_;
  const int64_t page_tokens_;
  const std::vector<std::vector<TokenId>> shared_;
  Node root_;
  std::vector<Candidates> candidates_;  // by group
  uint64_t clock_ = 0;
  int64_t nodes_ = 0;
};

}  // namespace strata
