#include "engine/weight_check.h"

#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace strata {

std::optional<std::string> find_broken_weight(const Model& model) {
  std::vector<float> row;
  for (const WeightRef& weight : model.weights) {
    row.resize(static_cast<size_t>(weight.in));
    for (int64_t r = 0; r < weight.out; ++r) {
      decode_weight_row(weight, r, row.data());
      for (size_t c = 0; c < row.size(); ++c)
        if (!std::isfinite(row[c]))
          return fmt::format("tensor {} has {} at [{}, {}]", weight.name, row[c], r, c);
    }
  }
  return std::nullopt;
}

}  // namespace strata
