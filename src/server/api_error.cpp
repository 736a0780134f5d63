#include "server/api_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "net/sse.h"

namespace strata::server {
namespace {

// Retry-After is whole seconds from 1 to 60: clients ignore what is longer.
constexpr double kShortestRetry = 1, kLongestRetry = 60;
constexpr double kSlowestDrain = 1e-3;  // requests per second

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

ApiError draining(std::string_view what) {
  ApiError error{
      503, "service_unavailable_error",
      fmt::format("{}: the model is being unloaded, or the server is shutting down", what),
      "draining"};
  error.retry_after_seconds = 5;  // by then another one may be up
  return error;
}

std::string type_of_status(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "internal_error";
  }
}

}  // namespace

ApiError bad_field(std::string_view field, const std::string& message) {
  return {400, "invalid_request_error", message, "invalid_value", std::string(field)};
}

ApiError unsupported_field(std::string_view field, const std::string& message) {
  return {400, "invalid_request_error", message, "unsupported", std::string(field)};
}

ApiError to_api_error(const Error& error, std::string_view prompt_field) {
  if (dynamic_cast<const ContextLengthError*>(&error) != nullptr)
    return {400, "invalid_request_error", error.what(), "context_length_exceeded",
            std::string(prompt_field)};
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::data_corrupt:
      return {400, "invalid_request_error", error.what(), "invalid_value"};
    case ErrorCode::unsupported:
      return {400, "invalid_request_error", error.what(), "unsupported"};
    case ErrorCode::not_found:
      return {404, "not_found_error", error.what(), "not_found"};
    case ErrorCode::resource_exhausted: {
      ApiError out{503, "service_unavailable_error", error.what(), "resource_exhausted"};
      out.retry_after_seconds = 1;
      return out;
    }
    case ErrorCode::cancelled:
      return {503, "service_unavailable_error", error.what(), "cancelled"};
    case ErrorCode::internal:
      break;
  }
  // What went wrong inside is for the log, not for the client.
  return {500, "internal_error", "internal error", "internal"};
}

ApiError timeout_error() {
  ApiError error{503, "service_unavailable_error",
                 "the request's time-out passed before its first token", "timeout"};
  error.never_retry = true;
  return error;
}

ApiError refusal(Submit reason, const EngineStats& stats) {
  switch (reason) {
    case Submit::queue_full: {
      ApiError error{429, "rate_limit_error",
                     fmt::format("the queue is full ({} requests wait)", stats.waiting),
                     "queue_full"};
      // By then half of those that wait will have left the queue, at its present rate.
      const double seconds =
          stats.waiting / (2 * std::max(stats.drain_requests_per_second, kSlowestDrain));
      error.retry_after_seconds =
          static_cast<int>(std::clamp(std::ceil(seconds), kShortestRetry, kLongestRetry));
      return error;
    }
    case Submit::memory_low: {
      ApiError error{503, "service_unavailable_error",
                     "the machine is short of memory; requests that run go on", "memory_low"};
      error.retry_after_seconds = 5;
      return error;
    }
    case Submit::draining:
    case Submit::accepted:
      break;
  }
  return draining("no new requests are taken");
}

ApiError drained_error() { return draining("the request was ended before its answer was"); }

std::string error_body(const ApiError& error) {
  OrderedJson body;
  body["error"]["message"] = error.what();
  body["error"]["type"] = error.type;
  body["error"]["param"] = text_or_null(error.param);
  body["error"]["code"] = text_or_null(error.code);
  return to_json_text(body);
}

std::string error_body(int status, std::string_view message) {
  return error_body(ApiError(status, type_of_status(status), std::string(message)));
}

net::Response error_response(const ApiError& error) {
  net::Response response;
  response.status = error.status;
  response.headers = {{"Content-Type", "application/json"}};
  if (error.retry_after_seconds > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
  if (error.status == 500 || error.never_retry)
    response.headers.emplace_back("x-should-retry", "false");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  response.body = error_body(error);
  return response;
}

std::string error_stream_tail(const ApiError& error) {
  OrderedJson body;
  body["error"]["message"] = error.what();
  body["error"]["type"] = error.code.empty() ? error.type : error.code;
  body["error"]["param"] = text_or_null(error.param);
  body["error"]["code"] = error.status;
  return net::sse_error(to_json_text(body)) + std::string(net::kSseDone);
}

}  // namespace strata::server
