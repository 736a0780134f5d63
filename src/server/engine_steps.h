#pragma once

#include "server/server_state.h"

namespace strata::server {

// GET /engine/steps/MODEL/NUMBER: the passes over the model after that number, and the engine as it
// is now; for pictures of a load and the page's view of the engine. docs/api.md has the fields.
void engine_steps(Context& context);

}  // namespace strata::server
