#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "text/jinja/ast.h"

namespace strata::jinja {

// Whether filters and tests that do not exist are found out when the template is loaded. jinja2
// leaves them to the run time right inside an `if` (statement or inline), so that templates can ask
// `is filter` first.
enum class UnknownFilters : uint8_t { refuse, leave };

using NameReader = std::function<void(std::string_view name)>;

// Calls `read` for each variable the expression (may be null) reads. Throws Error{unsupported} for
// a filter or test that does not exist, where `unknown` says so.
void for_each_name(const ExpressionPtr& expression, UnknownFilters unknown, const NameReader& read);

// A name that a block mentions: read, or written by an assignment.
enum class Mention : uint8_t { read, written };
using MentionReader = std::function<void(std::string_view name, Mention mention, int line)>;

// Calls `mentioned` for every name in the block and the blocks inside it, in jinja2's order of
// walking (an assignment's target before its value). Names of macros and their parameters are
// left out, as there; names a `with` makes count as written.
void for_each_mention(const Block& block, const MentionReader& mentioned);

}  // namespace strata::jinja
