#include "text/byte_trie.h"

#include <algorithm>

namespace strata {

ByteTrie::ByteTrie(std::vector<std::pair<std::string, TokenId>> entries) : nodes_(1) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Each node owns a range of the sorted keys that share its path; ranges are split in
  // breadth-first order, so a node's edges end up together.
  struct Range {
    Node node;
    size_t begin, end, depth;
  };
  std::vector<Range> queue{{kRoot, 0, entries.size(), 0}};
  for (size_t head = 0; head < queue.size(); ++head) {
    const Range r = queue[head];
    size_t i = r.begin;
    for (; i < r.end && entries[i].first.size() == r.depth; ++i)
      if (r.depth > 0) nodes_[static_cast<size_t>(r.node)].id = entries[i].second;
    nodes_[static_cast<size_t>(r.node)].first_edge = static_cast<uint32_t>(edges_.size());
    while (i < r.end) {
      const auto byte = static_cast<unsigned char>(entries[i].first[r.depth]);
      size_t j = i + 1;
      while (j < r.end && static_cast<unsigned char>(entries[j].first[r.depth]) == byte) ++j;
      const auto child = static_cast<Node>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({byte, child});
      ++nodes_[static_cast<size_t>(r.node)].edge_count;
      queue.push_back({child, i, j, r.depth + 1});
      i = j;
    }
  }
}

ByteTrie::Node ByteTrie::step(Node node, unsigned char byte) const {
  const NodeData& data = nodes_[static_cast<size_t>(node)];
  const Edge* begin = edges_.data() + data.first_edge;
  const Edge* end = begin + data.edge_count;
  const Edge* found =
      std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
  return found != end && found->byte == byte ? found->to : kNowhere;
}

}  // namespace strata
