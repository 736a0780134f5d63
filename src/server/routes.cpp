#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "server/admin_routes.h"
#include "server/api_error.h"
#include "server/call.h"
#include "server/chat_request.h"
#include "server/embedding_call.h"
#include "server/engine_steps.h"
#include "server/field_tables.h"
#include "server/openapi.h"
#include "server/plain_routes.h"
#include "server/server_state.h"
#include "server/web_page.h"

namespace strata::server {
namespace {

constexpr int kPingMilliseconds = 15'000;
constexpr std::string_view kJson = "application/json";

AnswerHead answer_head(const Context& context, AnswerForm form, const ServedModel& model) {
  AnswerHead head;
  head.form = form;
  head.id = (form == AnswerForm::chat ? "chatcmpl-" : "cmpl-") + context.request_id;
  head.created = std::time(nullptr);
  head.model = model.name;
  head.fingerprint = model.engine->fingerprint();
  return head;
}

// Comments keep a stream's reader from giving up while its prompt is read.
void ping_later(net::HttpServer& http, std::weak_ptr<Call> call) {
  http.post_after(kPingMilliseconds, [&http, call] {
    if (const auto alive = call.lock(); alive && alive->ping()) ping_later(http, call);
  });
}

void start_call(Context& context, const ServedModel& model, AnswerForm form,
                const GenerationAsk& ask, std::vector<Prompt> prompts, bool echo) {
  const auto call = std::make_shared<Call>(context.exchange, model.engine, context.state.metrics,
                                           answer_head(context, form, model), context.headers);
  call->start(ask, std::move(prompts), echo);
  if (ask.stream) ping_later(*context.state.http, call);
}

// The API's bodies must name their model.
ServedModel required_model(Context& context, const RequestFields& fields) {
  const auto name = fields.text("model");
  if (!name) throw bad_field("model", "model: missing; GET /v1/models lists them");
  return find_model(context.state, name);
}

void chat(Context& context) {
  const RequestFields fields = read_body(context, chat_fields());
  const ServedModel model = required_model(context, fields);
  GenerationAsk ask = read_chat(fields, *model.engine, context.caller);
  std::vector<Prompt> prompts(1);
  prompts[0].ids = std::move(ask.base.prompt);
  start_call(context, model, AnswerForm::chat, ask, std::move(prompts), false);
}

void completions(Context& context) {
  const RequestFields fields = read_body(context, completion_fields());
  const ServedModel model = required_model(context, fields);
  CompletionAsk ask = read_completion(fields, *model.engine, context.caller);
  start_call(context, model, AnswerForm::completion, ask.ask, std::move(ask.prompts), ask.echo);
}

void embeddings(Context& context) {
  const RequestFields fields = read_body(context, embedding_fields());
  const ServedModel model = required_model(context, fields);
  EmbeddingAsk ask = read_embedding(fields, *model.engine, context.caller);
  std::make_shared<EmbeddingCall>(context.exchange, model.engine, context.state.metrics, model.name,
                                  context.headers)
      ->start(std::move(ask));
}

void generate_as(Context& context, bool stream) {
  const RequestFields fields = read_body(context, generate_fields());
  const ServedModel model = find_model(context.state, fields.text("model"));
  GenerationAsk ask = read_generation(fields, *model.engine, context.caller);
  ask.stream = stream;
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr || !prompt->is_string()) throw bad_field("prompt", "prompt: wanted text");
  start_call(context, model, AnswerForm::generate, ask,
             read_prompts(*prompt, "prompt", *model.engine, ControlText::parse, 1), false);
}

void generate(Context& context) { generate_as(context, false); }
void generate_stream(Context& context) { generate_as(context, true); }

OrderedJson model_json(const ServedModel& model) {
  OrderedJson out;
  out["id"] = model.name;
  out["object"] = "model";
  out["created"] = model.created;
  out["owned_by"] = "strata";
  // Of a model that has to be loaded first it is not known yet.
  if (model.engine != nullptr) {
    out["context_length"] = model.engine->context_length();
    out["max_model_len"] = model.engine->context_length();
  }
  return out;
}

void list_models(Context& context) {
  require_models(context.state);
  OrderedJson out;
  out["object"] = "list";
  out["data"] = OrderedJson::array();
  for (const ModelSet::Entry& entry : context.state.models.entries())
    out["data"].push_back(model_json(entry.model));
  answer(context, 200, kJson, to_json_text(out));
}

void one_model(Context& context) {
  const std::string name = context.request().path.substr(std::string_view("/v1/models/").size());
  require_models(context.state);
  for (const ModelSet::Entry& entry : context.state.models.entries())
    if (entry.model.name == name)
      return answer(context, 200, kJson, to_json_text(model_json(entry.model)));
  find_model(context.state, name);  // says what there is
}

void live(Context& context) {
  const bool alive = context.state.alive();
  answer(context, alive ? 200 : 503, kJson,
         alive ? R"({"status":"live"})" : R"({"status":"the engine's loop stands still"})");
}

void ready(Context& context) {
  const ServerState& state = context.state;
  OrderedJson out;
  const auto engines = state.models.engines();
  const bool is_ready = state.ready && !state.draining;
  out["status"] = is_ready ? "ready" : state.draining ? "draining" : "loading";
  out["version"] = STRATA_VERSION;
  if (is_ready && !engines.empty()) {
    out["fingerprint"] = engines.front()->fingerprint();
    out["threads"] = engines.front()->options().threads;
  }
  if (!is_ready) context.headers.emplace_back("Retry-After", "1");
  answer(context, is_ready ? 200 : 503, kJson, to_json_text(out));
}

void metrics(Context& context) {
  answer(context, 200, "text/plain; version=0.0.4; charset=utf-8",
         context.state.metrics.text(context.state.models.stats()));
}

void openapi(Context& context) {
  int64_t largest_vocabulary = 0;
  for (const auto& engine : context.state.models.engines())
    largest_vocabulary = std::max(largest_vocabulary, engine->model().config.vocabulary_size);
  answer(context, 200, kJson, openapi_document(largest_vocabulary));
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> table = {
      {"/v1/chat/completions", "POST", chat, true, true},
      {"/v1/completions", "POST", completions, true, true},
      {"/v1/embeddings", "POST", embeddings, true, true},
      {"/v1/models", "GET", list_models, false, true},
      {"/v1/models/", "GET", one_model, false, true},
      {"/generate", "POST", generate, true, true},
      {"/generate/stream", "POST", generate_stream, true, true},
      {"/generate/batch", "POST", generate_batch, true, true},
      {"/tokenize", "POST", tokenize, true, true},
      {"/detokenize", "POST", detokenize, true, true},
      {"/admin/models", "GET", admin_models, false, false},
      {"/admin/models/load", "POST", admin_load, true, false},
      {"/admin/models/unload", "POST", admin_unload, true, false},
      {"/health", "GET", ready, false, false},
      {"/health/live", "GET", live, false, false},
      {"/health/ready", "GET", ready, false, false},
      {"/engine/steps/", "GET", engine_steps, true, true},
      {"/metrics", "GET", metrics, false, false},
      {"/openapi.json", "GET", openapi, true, false},
      {"/", "GET", web_page, false, false},
      {"/web/", "GET", web_page, false, false},
  };
  return table;
}

}  // namespace strata::server
