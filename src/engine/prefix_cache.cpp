#include "engine/prefix_cache.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace strata {
namespace {

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())),
                       b.begin())
             .first -
         a.begin();
}

}  // namespace

PrefixCache::PrefixCache(KvPool& pool, std::vector<std::vector<TokenId>> shared)
    : pool_(pool),
      page_tokens_(pool.shape().page_tokens),
      shared_(std::move(shared)),
      candidates_(pool.shape().groups.size()) {
  root_.pages.assign(candidates_.size(), -1);
  pool_.set_reclaimer([this](size_t group) { return reclaim(group); });
}

PrefixCache::~PrefixCache() {
  clear();
  pool_.set_reclaimer(nullptr);
}

// How many of `tokens`, from the first, are those of a declared sequence.
int64_t PrefixCache::declared(std::span<const TokenId> tokens) const {
  int64_t most = 0;
  for (const std::vector<TokenId>& sequence : shared_)
    most = std::max(most, common_tokens(sequence, tokens));
  return most;
}

uint32_t PrefixCache::salt_of(int64_t page, int64_t declared, uint32_t salt) const {
  return (page + 1) * page_tokens_ <= declared ? kSharedSalt : salt;
}

// The child of that salt with the longest common beginning: in an ordered list it stands beside the
// place of `want`.
PrefixCache::Match PrefixCache::best_child(const Node& node, uint32_t salt,
                                           std::span<const TokenId> want) {
  const auto before = [&](const std::unique_ptr<Node>& child, std::span<const TokenId> tokens) {
    if (child->salt != salt) return child->salt < salt;
    return std::lexicographical_compare(child->tokens.begin(), child->tokens.end(), tokens.begin(),
                                        tokens.end());
  };
  const auto place = std::lower_bound(node.children.begin(), node.children.end(), want, before);
  Match best;
  const auto consider = [&](const std::unique_ptr<Node>& child) {
    if (child->salt != salt) return;
    const int64_t common = common_tokens(child->tokens, want);
    if (common > best.common) best = {child.get(), common};
  };
  if (place != node.children.end()) consider(*place);
  if (place != node.children.begin()) consider(*(place - 1));
  return best;
}

// first_held[g]: the first page of the run of held ones that ends at `length`.
bool PrefixCache::holds_all_seen(const std::vector<int64_t>& first_held, int64_t length) const {
  for (size_t g = 0; g < first_held.size(); ++g)
    if (first_held[g] > pool_.first_seen_page(g, length)) return false;
  return true;
}

int64_t PrefixCache::find(int32_t cache, uint32_t salt, std::span<const TokenId> tokens,
                          int64_t most) {
  const int64_t limit = std::min<int64_t>(most, static_cast<int64_t>(tokens.size()));
  std::vector<int64_t> first_held(candidates_.size(), 0);
  std::vector<std::vector<int32_t>> pages(candidates_.size());
  std::vector<Node*> path;
  int64_t best = 0;
  Node* node = &root_;
  for (int64_t page = 0; page * page_tokens_ < limit; ++page) {
    const int64_t begin = page * page_tokens_;
    const auto want = tokens.subspan(static_cast<size_t>(begin),
                                     static_cast<size_t>(std::min(page_tokens_, limit - begin)));
    // A declared page may serve in part, too.
    Match match = best_child(*node, kSharedSalt, want);
    if (const Match own = best_child(*node, salt, want); own.common > match.common) match = own;
    if (match.common == 0) break;
    node = match.node;
    path.push_back(node);
    for (size_t g = 0; g < pages.size(); ++g) {
      pages[g].push_back(node->pages[g]);
      if (node->pages[g] < 0) first_held[g] = page + 1;
    }
    if (holds_all_seen(first_held, begin + match.common)) best = begin + match.common;
    if (match.common < page_tokens_) break;
  }
  if (best == 0) return 0;
  const std::vector<std::span<const int32_t>> tables(pages.begin(), pages.end());
  // Without a page for the copy of a part of a page, whole ones will do.
  if (!pool_.share(cache, best, tables)) {
    best -= best % page_tokens_;
    std::fill(first_held.begin(), first_held.end(), 0);
    for (size_t g = 0; g < pages.size(); ++g)
      for (size_t i = 0; i < static_cast<size_t>(best / page_tokens_); ++i) {
        pages[g][i] = path[i]->pages[g];  // the search for a page may have taken it
        if (pages[g][i] < 0) first_held[g] = static_cast<int64_t>(i) + 1;
      }
    if (best == 0 || !holds_all_seen(first_held, best)) return 0;
    const bool shares = pool_.share(cache, best, tables);
    STRATA_ASSERT(shares);
  }
  for (int64_t i = 0; i * page_tokens_ < best; ++i) touch(*path[static_cast<size_t>(i)]);
  return best;
}

PrefixCache::Node* PrefixCache::add_child(Node& parent, uint32_t salt,
                                          std::span<const TokenId> tokens) {
  // The parent is no leaf any more.
  for (size_t g = 0; g < candidates_.size(); ++g)
    if (keeps_all(g)) candidates_[g].erase({parent.used, &parent});
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->salt = salt;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->pages.assign(candidates_.size(), -1);
  const auto before = [](const std::unique_ptr<Node>& a, const std::unique_ptr<Node>& b) {
    if (a->salt != b->salt) return a->salt < b->salt;
    return a->tokens < b->tokens;
  };
  Node* added = node.get();
  parent.children.insert(
      std::lower_bound(parent.children.begin(), parent.children.end(), node, before),
      std::move(node));
  ++nodes_;
  return added;
}

// Of pages with the same keys and values one is enough: the tree's.
void PrefixCache::exchange_pages(Node& node, int32_t cache, size_t index) {
  for (size_t g = 0; g < node.pages.size(); ++g) {
    const int32_t own = pool_.page_table(cache, g)[index];
    if (own < 0 || own == node.pages[g]) continue;
    if (node.pages[g] >= 0) {
      pool_.replace(cache, g, index, node.pages[g]);
    } else {
      pool_.keep(g, own);
      node.pages[g] = own;
    }
  }
}

void PrefixCache::take_pages(Node& node, int32_t cache, size_t index) {
  for (size_t g = 0; g < node.pages.size(); ++g) {
    drop_page(node, g);
    const int32_t page = pool_.page_table(cache, g)[index];
    if (page >= 0) pool_.keep(g, page);
    node.pages[g] = page;
  }
}

void PrefixCache::insert(int32_t cache, uint32_t salt, std::span<const TokenId> tokens,
                         bool whole) {
  const int64_t length = pool_.length(cache);
  STRATA_ASSERT(length <= static_cast<int64_t>(tokens.size()));
  const int64_t shared = declared(tokens.first(static_cast<size_t>(length)));
  Node* node = &root_;
  for (int64_t page = 0; page * page_tokens_ < length; ++page) {
    const int64_t begin = page * page_tokens_;
    const int64_t count = std::min(page_tokens_, length - begin);
    if (count < page_tokens_ && !whole) break;
    const auto want = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    const auto index = static_cast<size_t>(page);
    const uint32_t page_salt = salt_of(page, shared, salt);
    const Match match = best_child(*node, page_salt, want);
    if (match.common == count) {
      node = match.node;
      if (count == page_tokens_) exchange_pages(*node, cache, index);
    } else if (match.node != nullptr &&
               match.common == static_cast<int64_t>(match.node->tokens.size())) {
      // A part of these tokens was there: it grows. Its place among its siblings stays, as none of
      // them begins with what it held.
      node = match.node;
      node->tokens.assign(want.begin(), want.end());
      take_pages(*node, cache, index);
    } else {
      node = add_child(*node, page_salt, want);
      take_pages(*node, cache, index);
    }
    touch(*node);
  }
}

bool PrefixCache::is_candidate(const Node& node, size_t group) const {
  return &node != &root_ && node.pages[group] >= 0 && (!keeps_all(group) || node.children.empty());
}

void PrefixCache::touch(Node& node) {
  for (Candidates& candidates : candidates_) candidates.erase({node.used, &node});
  node.used = ++clock_;
  for (size_t g = 0; g < candidates_.size(); ++g)
    if (is_candidate(node, g)) candidates_[g].insert({node.used, &node});
}

void PrefixCache::drop_page(Node& node, size_t group) {
  if (node.pages[group] < 0) return;
  candidates_[group].erase({node.used, &node});
  pool_.forget(group, node.pages[group]);
  node.pages[group] = -1;
}

// Takes a leaf out, and those above it that are left without children and pages. Returns the last
// ancestor that stays.
PrefixCache::Node& PrefixCache::remove(Node& leaf) {
  STRATA_ASSERT(leaf.children.empty());
  for (size_t g = 0; g < candidates_.size(); ++g) drop_page(leaf, g);
  Node& parent = *leaf.parent;
  parent.children.erase(
      std::find_if(parent.children.begin(), parent.children.end(),
                   [&](const std::unique_ptr<Node>& child) { return child.get() == &leaf; }));
  --nodes_;
  if (&parent == &root_ || !parent.children.empty()) return parent;
  for (size_t g = 0; g < candidates_.size(); ++g)
    if (is_candidate(parent, g)) candidates_[g].insert({parent.used, &parent});
  return has_pages(parent) ? parent : remove(parent);
}

bool PrefixCache::has_pages(const Node& node) {
  return std::any_of(node.pages.begin(), node.pages.end(), [](int32_t page) { return page >= 0; });
}

bool PrefixCache::reclaim(size_t group) {
  // At most one leaf per running sequence is passed over, and in a windowed group its window.
  for (const auto& candidate : candidates_[group]) {
    Node& node = *candidate.second;
    if (!pool_.is_cached(group, node.pages[group])) continue;
    if (!keeps_all(group)) drop_page(node, group);  // ends the candidate
    if (keeps_all(group) || (node.children.empty() && !has_pages(node))) remove(node);
    return true;
  }
  return false;
}

std::vector<PrefixCache::View> PrefixCache::view() const {
  std::vector<View> out;
  // Nodes whose children come next, with their places in `out`.
  std::vector<std::pair<const Node*, int64_t>> open = {{&root_, -1}};
  while (!open.empty()) {
    const auto [node, place] = open.back();
    open.pop_back();
    for (const auto& child : node->children) {
      open.emplace_back(child.get(), static_cast<int64_t>(out.size()));
      out.push_back({place, child->salt, child->tokens, child->pages, child->used});
    }
  }
  return out;
}

std::vector<PrefixCache::View> PrefixCache::view(uint32_t salt,
                                                 std::span<const TokenId> tokens) const {
  std::vector<View> out;
  const Node* node = &root_;
  const auto most = static_cast<size_t>(page_tokens_);
  for (size_t begin = 0; begin < tokens.size(); begin += most) {
    const auto want = tokens.subspan(begin, std::min(most, tokens.size() - begin));
    Match match = best_child(*node, kSharedSalt, want);
    if (const Match own = best_child(*node, salt, want); own.common > match.common) match = own;
    if (match.common == 0) break;
    node = match.node;
    out.push_back(
        {static_cast<int64_t>(out.size()) - 1, node->salt, node->tokens, node->pages, node->used});
    if (match.common < page_tokens_) break;
  }
  return out;
}

// The salts of nodes by what is declared now; nullopt: the node has none.
std::vector<std::optional<uint32_t>> PrefixCache::salts_of(const std::vector<View>& nodes) const {
  std::vector<std::optional<uint32_t>> salts(nodes.size());
  // Of each node: the declared sequences that begin with its path, and the path's length.
  std::vector<std::vector<size_t>> beginnings(nodes.size());
  std::vector<size_t> lengths(nodes.size());
  std::vector<size_t> all(shared_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  for (size_t i = 0; i < nodes.size(); ++i) {
    const View& view = nodes[i];
    const auto parent = static_cast<size_t>(view.parent);
    if (view.parent >= 0 && !salts[parent]) continue;
    const size_t begin = view.parent < 0 ? 0 : lengths[parent];
    lengths[i] = begin + view.tokens.size();
    for (const size_t s : view.parent < 0 ? all : beginnings[parent]) {
      const std::span<const TokenId> sequence = shared_[s];
      if (sequence.size() >= lengths[i] &&
          std::ranges::equal(sequence.subspan(begin, view.tokens.size()), view.tokens))
        beginnings[i].push_back(s);
    }
    const bool whole = static_cast<int64_t>(view.tokens.size()) == page_tokens_;
    if (whole && !beginnings[i].empty())
      salts[i] = kSharedSalt;
    else if (view.salt != kSharedSalt)
      salts[i] = view.salt;
  }
  return salts;
}

void PrefixCache::restore(const std::vector<View>& nodes) {
  const std::vector<std::optional<uint32_t>> salts = salts_of(nodes);
  std::vector<Node*> placed(nodes.size(), nullptr);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const View& view = nodes[i];
    if (!salts[i]) {
      for (size_t g = 0; g < view.pages.size(); ++g)
        if (view.pages[g] >= 0) pool_.release_page(g, view.pages[g]);
      continue;
    }
    Node* parent = view.parent < 0 ? &root_ : placed[static_cast<size_t>(view.parent)];
    const Match match = best_child(*parent, *salts[i], view.tokens);
    const bool known = match.node != nullptr && match.node->tokens == view.tokens;
    placed[i] = known ? match.node : add_child(*parent, *salts[i], view.tokens);
    for (size_t g = 0; g < view.pages.size(); ++g) {
      if (view.pages[g] < 0) continue;
      if (placed[i]->pages[g] < 0) {
        placed[i]->pages[g] = view.pages[g];
        pool_.keep(g, view.pages[g]);
      }
      pool_.release_page(g, view.pages[g]);
    }
  }
  std::vector<size_t> by_use(nodes.size());
  std::iota(by_use.begin(), by_use.end(), size_t{0});
  std::stable_sort(by_use.begin(), by_use.end(),
                   [&](size_t a, size_t b) { return nodes[a].used < nodes[b].used; });
  for (const size_t i : by_use)
    if (placed[i] != nullptr) touch(*placed[i]);
}

void PrefixCache::clear() {
  Node* node = &root_;
  while (!root_.children.empty()) {
    while (!node->children.empty()) node = node->children.back().get();
    node = &remove(*node);
  }
}

}  // namespace strata
