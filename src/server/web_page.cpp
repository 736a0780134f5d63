#include "server/web_page.h"

#include "server/api_error.h"
#include "server/web_files.h"

namespace strata::server {
namespace {

// Nothing but the page's own files, and calls to this server only: a model's text that slipped
// through could load and send nothing.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

void web_page(Context& context) {
  for (const WebFile& file : web_files()) {
    if (file.path != context.request().path) continue;
    context.headers.emplace_back("Content-Security-Policy", kContentSecurityPolicy);
    context.headers.emplace_back("X-Content-Type-Options", "nosniff");
    context.headers.emplace_back("Referrer-Policy", "no-referrer");
    context.headers.emplace_back("Cache-Control", "no-cache");
    answer(context, 200, file.content_type, std::string(file.content));
    return;
  }
  throw ApiError(404, "not_found_error", "no such file", "not_found");
}

}  // namespace strata::server
