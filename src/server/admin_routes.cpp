#include "server/admin_routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/utf8.h"
#include "model/catalogue.h"
#include "server/api_error.h"
#include "server/field_tables.h"

namespace strata::server {
namespace {

constexpr size_t kLongestName = 128;

void check_admin(Context& context) {
  const ServerState& state = context.state;
  const auto authorization = context.request().header("Authorization");
  if (state.admin_keys.empty()) {
    // Without a key it is 401 as ever, as the document of the API says.
    const bool without_key = authorization.empty();
    throw ApiError(without_key ? 401 : 403,
                   without_key ? "authentication_error" : "permission_error",
                   "administration is off; start the server with --admin-key-file", "admin_off");
  }
  const auto key = state.admin_keys.find(authorization);
  if (!key)
    throw ApiError(401, "authentication_error",
                   "missing or unknown admin key; send Authorization: Bearer KEY",
                   "invalid_api_key");
  log_info("request {}: {} by admin key '{}'", context.request_id, context.request().path,
           state.admin_keys[*key].name);
}

std::string required_text(const RequestFields& fields, const char* name) {
  const auto text = fields.text(name);
  if (!text || text->empty()) throw bad_field(name, fmt::format("{}: missing", name));
  return *text;
}

// Names appear in paths and headers.
std::string read_name(const RequestFields& fields) {
  std::string name = required_text(fields, "name");
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
  });
  if (!printable || name.size() > kLongestName)
    throw bad_field("name",
                    fmt::format("name: wanted at most {} printable ASCII characters without "
                                "blanks, quotes and backslashes",
                                kLongestName));
  return name;
}

// A name of the catalogue as it is; else a file or folder that, links followed, lies below the
// root.
std::string read_path(const RequestFields& fields, const std::filesystem::path& root) {
  const std::string text = required_text(fields, "path");
  const auto& known = catalogue();
  if (std::any_of(known.begin(), known.end(), [&](const auto& e) { return e.name == text; }))
    return text;
  std::error_code error;
  const auto base = std::filesystem::canonical(root, error);
  if (error)
    throw ApiError(400, "invalid_request_error", "the server's --model-root is not there",
                   "not_found", "path");
  // A text with a zero byte names another file than it shows.
  if (text.find('\0') != std::string::npos) throw bad_field("path", "path: has a zero byte");
  const auto path = std::filesystem::weakly_canonical(base / text, error);
  const auto [end, rest] = std::mismatch(base.begin(), base.end(), path.begin(), path.end());
  if (error || end != base.end() || rest == path.end())
    throw bad_field("path", fmt::format("path: '{}' is not below the server's --model-root",
                                        clipped_utf8(text, 200)));
  return path.string();
}

// Answers a load or unload when it is done.
ModelSet::Done answer_when_done(const Context& context, const std::string& name,
                                const char* state) {
  return [context = std::make_shared<Context>(context), name, state](std::exception_ptr error) {
    const auto refuse = [&](const ApiError& e) {
      net::Response response = error_response(e);
      response.headers.insert(response.headers.end(), context->headers.begin(),
                              context->headers.end());
      context->exchange->respond(std::move(response));
    };
    try {
      if (error) std::rethrow_exception(error);
      OrderedJson out;
      out["name"] = name;
      out["state"] = state;
      answer(*context, 200, "application/json", to_json_text(out));
    } catch (const ApiError& e) {
      refuse(e);
    } catch (const Error& e) {
      log_error("request {}: {}", context->request_id, e.what());
      refuse(to_api_error(e));
    } catch (const std::exception& e) {
      log_error("request {}: {}", context->request_id, e.what());
      refuse({500, "internal_error", "internal error", "internal"});
    }
  };
}

const char* state_name(ModelSet::State state) {
  switch (state) {
    case ModelSet::State::ready:
      return "ready";
    case ModelSet::State::loading:
      return "loading";
    case ModelSet::State::unloaded:
      break;
  }
  return "unloaded";
}

}  // namespace

void admin_models(Context& context) {
  check_admin(context);
  OrderedJson out;
  out["models"] = OrderedJson::array();
  for (const ModelSet::Entry& e : context.state.models.entries()) {
    OrderedJson one;
    one["name"] = e.model.name;
    one["path"] = e.model.path;
    one["state"] = state_name(e.state);
    one["memory_bytes"] = e.model.engine ? e.model.engine->memory_bytes() : 0;
    if (e.model.engine) {
      const EngineStats stats = e.model.engine->stats();
      one["running"] = stats.running;
      one["waiting"] = stats.waiting;
    }
    out["models"].push_back(std::move(one));
  }
  answer(context, 200, "application/json", to_json_text(out));
}

void admin_load(Context& context) {
  check_admin(context);
  require_models(context.state);
  const RequestFields fields = read_body(context, admin_load_fields());
  const std::string name = read_name(fields);
  context.state.models.load(name, read_path(fields, context.state.settings.model_root),
                            answer_when_done(context, name, "ready"));
}

void admin_unload(Context& context) {
  check_admin(context);
  require_models(context.state);
  const RequestFields fields = read_body(context, admin_unload_fields());
  const std::string name = read_name(fields);
  context.state.models.unload(name, answer_when_done(context, name, "unloaded"));
}

}  // namespace strata::server
