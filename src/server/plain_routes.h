#pragma once

#include "server/server_state.h"

namespace strata::server {

void tokenize(Context& context);
void detokenize(Context& context);
// POST /generate/batch: every request of the body runs at once; results come in order, each an
// answer or an error.
void generate_batch(Context& context);

}  // namespace strata::server
