#pragma once

#include <string>

#include "model/model.h"

namespace strata {

// Looks through the model's weights for values that are no finite numbers: "weights: blk.3.ffn_up
// has nan at [7, 12]", or that all are finite. Reads the files again; slow, for logs after a fault.
std::string describe_broken_weights(const Model& model);

}  // namespace strata
