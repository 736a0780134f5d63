#include "server/openapi.h"

#include <initializer_list>
#include <string_view>

#include "base/json.h"
#include "server/field_tables.h"

namespace strata::server {
namespace {

// A field that may always be null, which means absent.
OrderedJson nullable(const FieldSpec& spec) {
  OrderedJson schema = OrderedJson::parse(spec.schema);
  if (spec.field_class == FieldClass::neutral) {
    OrderedJson values = OrderedJson::parse(spec.neutral);
    values.push_back(nullptr);
    schema = OrderedJson();
    schema["enum"] = std::move(values);
  } else if (schema.contains("anyOf")) {
    schema["anyOf"].push_back(OrderedJson::parse(R"({"type":"null"})"));
  } else if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
    schema.erase("type");
  } else if (schema.contains("type") && schema["type"].is_string()) {
    schema["type"] = OrderedJson::array({schema["type"], "null"});
  }
  return schema;
}

OrderedJson object_schema(std::span<const FieldSpec> table,
                          std::initializer_list<std::string_view> required) {
  OrderedJson schema;
  schema["type"] = "object";
  schema["properties"] = OrderedJson::object();
  for (const FieldSpec& spec : table) {
    bool is_required = false;
    for (std::string_view name : required) is_required = is_required || name == spec.name;
    OrderedJson& property = schema["properties"][std::string(spec.name)];
    property = is_required ? OrderedJson::parse(spec.schema) : nullable(spec);
    if (!spec.meaning.empty()) property["description"] = spec.meaning;
  }
  if (required.size() > 0) {
    schema["required"] = OrderedJson::array();
    for (std::string_view name : required) schema["required"].push_back(name);
  }
  schema["additionalProperties"] = false;
  return schema;
}

OrderedJson schema_reference(std::string_view name) {
  OrderedJson out;
  out["$ref"] = "#/components/schemas/" + std::string(name);
  return out;
}

OrderedJson response(std::string_view description, std::string_view content_type,
                     OrderedJson schema) {
  OrderedJson out;
  out["description"] = description;
  if (!content_type.empty())
    out["content"][std::string(content_type)]["schema"] = std::move(schema);
  return out;
}

OrderedJson responses(std::string_view content_type, bool streams,
                      std::initializer_list<int> errors) {
  OrderedJson out;
  out["200"] = response("the answer", content_type, OrderedJson::object());
  // Without a schema: version 3.1 has no words for the fields of an event.
  if (streams) out["200"]["content"]["text/event-stream"] = OrderedJson::object();
  for (int status : errors)
    out[std::to_string(status)] =
        response("refused", "application/json", schema_reference("Error"));
  return out;
}

OrderedJson post(std::string_view summary, std::string_view schema, bool streams) {
  OrderedJson out;
  out["summary"] = summary;
  out["requestBody"]["required"] = true;
  out["requestBody"]["content"]["application/json"]["schema"] = schema_reference(schema);
  out["responses"] =
      responses("application/json", streams, {400, 401, 404, 405, 408, 413, 429, 431, 500, 503});
  out["security"] = OrderedJson::parse(R"([{},{"key":[]}])");
  OrderedJson operation;
  operation["post"] = std::move(out);
  return operation;
}

OrderedJson get(std::string_view summary, std::string_view content_type) {
  OrderedJson out;
  out["summary"] = summary;
  out["responses"] = responses(content_type, false, {400, 401, 404, 405, 429, 431, 503});
  out["security"] = OrderedJson::parse(R"([{},{"key":[]}])");
  OrderedJson operation;
  operation["get"] = std::move(out);
  return operation;
}

// Of administration: its own key, and 403 where that is off.
OrderedJson for_admin(OrderedJson operation) {
  for (auto& [method, body] : operation.items()) {
    body["responses"]["403"] = response("refused", "application/json", schema_reference("Error"));
    body["security"] = OrderedJson::parse(R"([{"adminKey":[]}])");
  }
  return operation;
}

OrderedJson error_schema() {
  return OrderedJson::parse(R"({
    "type": "object", "required": ["error"],
    "properties": {"error": {"type": "object", "required": ["message", "type", "param", "code"],
      "properties": {"message": {"type": "string"}, "type": {"type": "string"},
                     "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}})");
}

}  // namespace

std::string openapi_document(int64_t largest_vocabulary) {
  OrderedJson doc;
  doc["openapi"] = "3.1.0";
  doc["info"]["title"] = "strata";
  doc["info"]["version"] = STRATA_VERSION;
  doc["info"]["description"] =
      "OpenAI-compatible serving of language models. A field that is not listed here is refused.";
  OrderedJson& paths = doc["paths"];
  paths["/v1/chat/completions"] = post("One answer to a conversation", "ChatRequest", true);
  paths["/v1/completions"] = post("Continues a text", "CompletionRequest", true);
  paths["/v1/embeddings"] = post("Texts as unit vectors", "EmbeddingRequest", false);
  paths["/v1/models"] = get("The models served", "application/json");
  paths["/v1/models/{id}"] = get("One model", "application/json");
  paths["/v1/models/{id}"]["get"]["parameters"] = OrderedJson::parse(
      R"([{"name":"id","in":"path","required":true,"schema":{"type":"string","minLength":1}}])");
  paths["/generate"] = post("Continues a text; the plain form", "GenerateRequest", false);
  paths["/generate/stream"] = post("The same as server-sent events", "GenerateRequest", true);
  paths["/generate/batch"] = post("Several at once", "GenerateBatchRequest", false);
  paths["/tokenize"] = post("Text to token ids", "TokenizeRequest", false);
  paths["/detokenize"] = post("Token ids to text", "DetokenizeRequest", false);
  paths["/engine/steps/{model}/{number}"] =
      get("The passes over a model after that number", "application/json");
  paths["/engine/steps/{model}/{number}"]["get"]["parameters"] = OrderedJson::parse(
      R"([{"name":"model","in":"path","required":true,"schema":{"type":"string","minLength":1}},)"
      R"({"name":"number","in":"path","required":true,"schema":{"type":"integer","minimum":0}}])");
  paths["/admin/models"] = for_admin(get("The models and their state", "application/json"));
  paths["/admin/models/load"] =
      for_admin(post("Loads a model; answers when it is ready", "AdminLoadRequest", false));
  paths["/admin/models/unload"] =
      for_admin(post("Unloads a model when its requests have ended", "AdminUnloadRequest", false));
  paths["/health"] = get("Ready?", "application/json");
  paths["/health/ready"] = get("Ready?", "application/json");
  paths["/health/live"] = get("Does the engine's loop turn?", "application/json");
  paths["/metrics"] = get("Prometheus metrics", "text/plain");
  paths["/openapi.json"] = get("This document", "application/json");
  OrderedJson& schemas = doc["components"]["schemas"];
  schemas["Error"] = error_schema();
  schemas["Message"] = object_schema(message_fields(), {"role"});
  schemas["ChatRequest"] = object_schema(chat_fields(), {"model", "messages"});
  schemas["CompletionRequest"] = object_schema(completion_fields(), {"model", "prompt"});
  schemas["EmbeddingRequest"] = object_schema(embedding_fields(), {"model", "input"});
  schemas["GenerateRequest"] = object_schema(generate_fields(), {"prompt"});
  schemas["GenerateBatchRequest"] = object_schema(generate_batch_fields(), {"requests"});
  schemas["TokenizeRequest"] = object_schema(tokenize_fields(), {"text"});
  schemas["DetokenizeRequest"] = object_schema(detokenize_fields(), {"ids"});
  schemas["AdminLoadRequest"] = object_schema(admin_load_fields(), {"name", "path"});
  schemas["AdminUnloadRequest"] = object_schema(admin_unload_fields(), {"name"});
  if (largest_vocabulary > 0)
    schemas["DetokenizeRequest"]["properties"]["ids"]["items"]["maximum"] = largest_vocabulary - 1;
  doc["components"]["securitySchemes"]["key"] =
      OrderedJson::parse(R"({"type":"http","scheme":"bearer"})");
  doc["components"]["securitySchemes"]["adminKey"] =
      OrderedJson::parse(R"({"type":"http","scheme":"bearer"})");
  return to_json_text(doc);
}

}  // namespace strata::server
