#pragma once

#include <string>

namespace strata::server {

// The OpenAPI 3.1 document of the server, made from the tables of fields.
std::string openapi_document();

}  // namespace strata::server
