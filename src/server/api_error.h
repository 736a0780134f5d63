#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/engine.h"
#include "net/http_server.h"

namespace strata::server {

// A refusal as clients see it: {"error":{"message","type","param","code"}} with an HTTP status.
struct ApiError : std::runtime_error {
  ApiError(int http_status, std::string error_type, const std::string& message,
           std::string error_code = {}, std::string field = {})
      : std::runtime_error(message),
        status(http_status),
        type(std::move(error_type)),
        code(std::move(error_code)),
        param(std::move(field)) {}

  int status;
  std::string type;
  std::string code;             // "" becomes null
  std::string param;            // the field at fault; "" becomes null
  int retry_after_seconds = 0;  // 0: no Retry-After header
  bool never_retry = false;     // x-should-retry: false, for clients that try 5xx again
};

ApiError bad_field(std::string_view field, const std::string& message);
// Well-formed, and beyond this server: 400 with code "unsupported".
ApiError unsupported_field(std::string_view field, const std::string& message);

// The one table from our error codes to HTTP.
// prompt_field: the field to name when the prompt does not fit the context.
ApiError to_api_error(const Error& error, std::string_view prompt_field = "prompt");

// The request's own time-out passed before it had anything to show.
ApiError timeout_error();
// The engine ended when its time to drain was over, and the request with it.
ApiError drained_error();
// Why an engine takes no request now: 429 or 503 with Retry-After.
ApiError refusal(Submit reason, const EngineStats& stats);

std::string error_body(const ApiError& error);
// For faults the HTTP layer finds itself (no such request line, too large, too slow).
std::string error_body(int status, std::string_view message);
net::Response error_response(const ApiError& error);
// The frame of an error inside a stream, then [DONE]. `code` is the HTTP status as a number there.
std::string error_stream_tail(const ApiError& error);

}  // namespace strata::server
