#pragma once

#include <optional>
#include <string>

#include "model/model.h"

namespace strata {

// The first value among the model's weights that is no finite number: "tensor blk.3.ffn_up has nan
// at [7, 12]". Reads the files again; slow, for after a fault.
std::optional<std::string> find_broken_weight(const Model& model);

}  // namespace strata
