#pragma once

#include "text/jinja/ast.h"

namespace strata::jinja {

// Decides once, as jinja2's compiler does, what the names of each scope mean: fills the `unset`
// lists of its frames and what macros take beyond their parameters. The rule: the first mention of
// a name at the level of its scope counts. If that reads it, or sets it inside an `if`, the name
// shows the scopes around and the request until it is set; if it sets it, the name is undefined
// until then, for loops and macros that stand before the assignment too.
// Throws Error{data_corrupt} for an assignment to `loop` inside a loop and for a parameter `caller`
// without a default, Error{unsupported} for filters and tests that do not exist.
void resolve_frames(Program& program);

}  // namespace strata::jinja
