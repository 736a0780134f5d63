#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

// A set of byte strings with ids, walked byte by byte from the front.
class ByteTrie {
 public:
  using Node = int32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNowhere = -1;

  ByteTrie() : nodes_(1) {}
  // Empty keys are left out; of equal keys the last stays.
  explicit ByteTrie(std::vector<std::pair<std::string, TokenId>> entries);

  bool empty() const { return edges_.empty(); }
  // The node after `byte`, kNowhere when no key goes on so.
  Node step(Node node, unsigned char byte) const;
  // The id of the key that ends here, kNoToken when none does.
  TokenId id_at(Node node) const { return nodes_[static_cast<size_t>(node)].id; }

 private:
  struct NodeData {
    uint32_t first_edge = 0;
    uint16_t edge_count = 0;
    TokenId id = kNoToken;
  };
  struct Edge {
    unsigned char byte;
    Node to;
  };
  std::vector<NodeData> nodes_;
  std::vector<Edge> edges_;  // those of a node together, by rising byte
};

}  // namespace strata
