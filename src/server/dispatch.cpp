#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "base/cpu.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/http_parser.h"
#include "server/api_error.h"
#include "server/server_state.h"

namespace strata::server {
namespace {

constexpr size_t kLongestRequestId = 128;
constexpr int kWorkers = 2;
constexpr size_t kMostWaitingJobs = 4096;
constexpr auto kDeadAfter = std::chrono::seconds(60);

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string new_request_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("req-{:016x}", generator());
}

Outcome outcome_of(const ApiError& error) {
  if (error.status == 429 || error.status == 503) return Outcome::overloaded;
  return error.status >= 500 ? Outcome::failed : Outcome::rejected;
}

bool is_generating(std::string_view path) {
  return path.starts_with("/v1/chat") || path.starts_with("/v1/completions") ||
         path.starts_with("/v1/embeddings") || path.starts_with("/generate");
}

// The field that is too long when a prompt does not fit.
const char* prompt_field(std::string_view path) {
  if (path.starts_with("/v1/chat")) return "messages";
  return path.starts_with("/v1/embeddings") ? "input" : "prompt";
}

void answer_error(Context& context, const ApiError& error) {
  if (is_generating(context.request().path)) context.state.metrics.count_request(outcome_of(error));
  net::Response response = error_response(error);
  response.headers.insert(response.headers.end(), context.headers.begin(), context.headers.end());
  context.exchange->respond(std::move(response));
  if (error.status != 429 && error.status != 503) return;
  context.state.metrics.observe_refusal(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - context.read).count());
}

// Runs `work`; whatever it throws becomes an answer.
template <typename Work>
void answering_errors(Context& context, Work work) {
  try {
    work();
  } catch (const ApiError& e) {
    answer_error(context, e);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) log_error("request {}: {}", context.request_id, e.what());
    answer_error(context, to_api_error(e, prompt_field(context.request().path)));
  } catch (const std::bad_alloc&) {
    answer_error(context,
                 {503, "service_unavailable_error", "out of memory", "resource_exhausted"});
  } catch (const std::exception& e) {
    log_error("request {}: {}", context.request_id, e.what());
    answer_error(context, {500, "internal_error", "internal error", "internal"});
  }
}

// Routes that end in '/' match what is below them.
bool matches(const Route& route, std::string_view path) {
  return route.path.ends_with('/') && route.path.size() > 1
             ? path.starts_with(route.path) && path.size() > route.path.size()
             : path == route.path;
}

void check_key(Context& context) {
  KeyRing& keys = context.state.keys;
  if (keys.empty()) return;
  const auto key = keys.find(context.request().header("Authorization"));
  if (!key)
    throw ApiError(401, "authentication_error",
                   "missing or unknown API key; send Authorization: Bearer KEY", "invalid_api_key");
  // Key 0 is nobody's: what all may share.
  context.caller = {keys[*key].priority_cap, static_cast<uint32_t>(*key + 1)};
  if (const int wait = keys.seconds_until_allowed(*key); wait > 0) {
    ApiError error{429, "rate_limit_error",
                   fmt::format("key '{}': over {} requests a minute", keys[*key].name,
                               keys[*key].requests_per_minute),
                   "rate_limit_exceeded"};
    error.retry_after_seconds = wait;
    throw error;
  }
}

// "Application/JSON; charset=utf-8" is JSON; "application/jsonp" is not.
bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return net::equal_ignoring_case(type, kJson);
}

void check_body_headers(const net::Request& request) {
  const std::string_view encoding = request.header("Content-Encoding");
  if (!encoding.empty() && encoding != "identity")
    throw ApiError(
        400, "invalid_request_error",
        fmt::format("Content-Encoding: {} is not supported; send the body as it is", encoding),
        "unsupported");
  // A page of another origin can send JSON under a form type without asking first.
  if (request.has_header("Origin") && !is_json(request.header("Content-Type")))
    throw ApiError(400, "invalid_request_error",
                   "requests with an Origin header need Content-Type: application/json",
                   "invalid_value");
}

void add_common_headers(Context& context) {
  const std::string_view given = context.request().header("X-Request-Id");
  context.request_id = !given.empty() && given.size() <= kLongestRequestId && is_printable(given)
                           ? std::string(given)
                           : new_request_id();
  context.headers = {{"X-Request-Id", context.request_id}};
  const std::string& origin = context.state.settings.cors_origin;
  if (origin.empty()) return;
  context.headers.emplace_back("Access-Control-Allow-Origin", origin);
  context.headers.emplace_back("Vary", "Origin");
  context.headers.emplace_back("Access-Control-Expose-Headers",
                               "X-Request-Id, X-Strata-Seed, X-Strata-Ignored, Retry-After");
}

void answer_preflight(Context& context, std::string_view methods) {
  net::Response response;
  response.status = 204;
  response.headers = context.headers;
  response.headers.emplace_back("Access-Control-Allow-Methods", std::string(methods));
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                "Authorization, Content-Type, X-Request-Id");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  context.exchange->respond(std::move(response));
}

}  // namespace

ServerState::ServerState(ServerSettings s)
    : settings(std::move(s)),
      keys(settings.api_keys),
      admin_keys(settings.admin_keys),
      metrics(std::string(isa_level_name(isa_level())), STRATA_VERSION),
      models(settings.models),
      workers(kWorkers, kMostWaitingJobs) {}

bool ServerState::alive() {
  if (!ready) return true;
  const std::lock_guard lock(pulse_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::vector<Pulse> pulses;
  bool all = true;
  for (const std::shared_ptr<Engine>& engine : models.engines()) {
    Pulse pulse{engine, engine->stats().ticks, now};
    for (const Pulse& before : pulses_)
      if (before.engine.lock() == engine && before.ticks == pulse.ticks) pulse.seen = before.seen;
    all = all && now - pulse.seen < kDeadAfter;
    pulses.push_back(pulse);
  }
  pulses_ = std::move(pulses);
  return all;
}

void answer(Context& context, int status, std::string_view content_type, std::string body) {
  net::Response response;
  response.status = status;
  response.headers = context.headers;
  response.headers.emplace_back("Content-Type", std::string(content_type));
  response.body = std::move(body);
  context.exchange->respond(std::move(response));
}

RequestFields read_body(Context& context, std::span<const FieldSpec> table) {
  const auto parsed = [&] {
    try {
      return parse_json(context.request().body);
    } catch (const Error& e) {
      throw ApiError(400, "invalid_request_error",
                     fmt::format("the body is not JSON: {}", e.what()), "invalid_json");
    }
  };
  RequestFields fields(parsed(), table, context.state.settings.lenient);
  if (!fields.ignored().empty()) {
    std::string names;
    for (const std::string& name : fields.ignored()) {
      if (!names.empty()) names += ", ";
      // Header values are printable ASCII, whatever the field was called.
      for (char c : name) names += c > 0x20 && c < 0x7f && c != ',' ? c : '?';
    }
    log_warning("request {}: ignored fields: {}", context.request_id, names);
    context.headers.emplace_back("X-Strata-Ignored", names);
  }
  return fields;
}

void require_models(const ServerState& state) {
  if (state.ready && !state.draining) return;
  ApiError error{503, "service_unavailable_error",
                 state.draining ? "the server is shutting down" : "the model is loading",
                 state.draining ? "draining" : "loading"};
  error.retry_after_seconds = state.draining ? 5 : 1;
  throw error;
}

ServedModel find_model(ServerState& state, const std::optional<std::string>& name) {
  require_models(state);
  return state.models.find(name);
}

void dispatch(ServerState& state, std::shared_ptr<net::Exchange> exchange) {
  auto context = std::make_shared<Context>(
      Context{state, std::move(exchange), {}, {}, {}, std::chrono::steady_clock::now()});
  answering_errors(*context, [&] {
    add_common_headers(*context);
    const net::Request& request = context->request();
    const std::string_view asked = request.method;
    const std::string_view method = asked == "HEAD" ? "GET" : asked;
    std::string allowed;
    const Route* found = nullptr;
    for (const Route& route : routes()) {
      if (!matches(route, request.path)) continue;
      if (route.method == method) found = &route;
      allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
      if (route.method == "GET") allowed += ", HEAD";
    }
    if (allowed.empty())
      throw ApiError(404, "not_found_error",
                     fmt::format("no such path: {}", clipped_utf8(request.path, 200)), "not_found");
    if (method == "OPTIONS" && !state.settings.cors_origin.empty() &&
        request.has_header("Access-Control-Request-Method")) {
      answer_preflight(*context, allowed);
      return;
    }
    if (found == nullptr) {
      context->headers.emplace_back("Allow", allowed);
      throw ApiError(405, "invalid_request_error",
                     fmt::format("{} is not allowed here; allowed: {}", request.method, allowed),
                     "method_not_allowed");
    }
    if (found->needs_key) check_key(*context);
    if (found->method == "POST") check_body_headers(request);
    if (!found->on_worker) {
      found->handler(*context);
      return;
    }
    const auto job = [context, handler = found->handler] {
      if (context->exchange->client_gone()) {
        if (is_generating(context->request().path))
          context->state.metrics.count_request(Outcome::aborted);
        return;
      }
      answering_errors(*context, [&] { handler(*context); });
    };
    if (!state.workers.post(job)) {
      ApiError error{429, "rate_limit_error", "too many requests wait", "queue_full"};
      error.retry_after_seconds = 1;
      throw error;
    }
  });
}

}  // namespace strata::server
