#pragma once

#include "model/model.h"
#include "model/name_map.h"
#include "model/spec.h"

namespace strata {

// Makes the transformer of `model` (config, store and ropes are set) from the specification: every
// weight found by its name, its shape compared with the configuration. Throws data_corrupt naming
// the tensor, got, wanted and the keys of the shape, or the tensors that are missing; unsupported
// for tensors that this architecture has no place for, since leaving them out would compute
// something else.
void bind_weights(Model& model, const ModelSpec& spec, const NameMap& names);

}  // namespace strata
