#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_model.h"

namespace strata {

// Remembers the ids of short words while one text is encoded, because words repeat. Lives for one
// call of encode(), so no lock and no shared state is needed.
class WordCache {
 public:
  explicit WordCache(const TokenModel& model) : model_(&model) {}
  void encode(std::string_view word, std::vector<TokenId>& out);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t key_start = 0;
    uint32_t ids_start = 0;
    uint16_t key_size = 0;  // 0: empty
    uint16_t id_count = 0;
  };
  void grow();

  const TokenModel* model_;
  std::vector<Entry> entries_;
  std::string keys_;
  std::vector<TokenId> ids_;
  size_t used_ = 0;
};

}  // namespace strata
