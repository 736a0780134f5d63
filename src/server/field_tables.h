#pragma once

#include <span>

#include "server/fields.h"

namespace strata::server {

// The fields of each endpoint's body. /openapi.json and docs/api.md are made from these tables.
std::span<const FieldSpec> chat_fields();
std::span<const FieldSpec> completion_fields();
std::span<const FieldSpec> embedding_fields();
std::span<const FieldSpec> generate_fields();
std::span<const FieldSpec> generate_batch_fields();
std::span<const FieldSpec> tokenize_fields();
std::span<const FieldSpec> detokenize_fields();
std::span<const FieldSpec> admin_load_fields();
std::span<const FieldSpec> admin_unload_fields();
// The fields of one chat message and of stream_options.
std::span<const FieldSpec> message_fields();
std::span<const FieldSpec> stream_option_fields();

}  // namespace strata::server
