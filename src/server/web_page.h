#pragma once

#include "server/server_state.h"

namespace strata::server {

// The chat page at / and its files below /web/, from memory.
void web_page(Context& context);

}  // namespace strata::server
