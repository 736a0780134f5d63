#pragma once

#include "server/server_state.h"

namespace strata::server {

// GET /admin/models, POST /admin/models/load and /admin/models/unload: only with a key of
// ServerSettings::admin_keys, and without any of those never. Files lie below
// ServerSettings::model_root.
void admin_models(Context& context);
void admin_load(Context& context);
void admin_unload(Context& context);

}  // namespace strata::server
