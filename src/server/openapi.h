#pragma once

#include <cstdint>
#include <string>

namespace strata::server {

// The OpenAPI 3.1 document of the server, made from the tables of fields.
// largest_vocabulary: tokens of the served model that has most; 0: none is loaded yet.
std::string openapi_document(int64_t largest_vocabulary);

}  // namespace strata::server
