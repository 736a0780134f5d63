#include "server/embedding_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "server/answers.h"
#include "server/api_error.h"

namespace strata::server {
namespace {

constexpr size_t kMostInputs = 2048;
// Inputs of one request in the engine at once: enough for full batches, and room for others.
constexpr size_t kInFlight = 32;

}  // namespace

EmbeddingAsk read_embedding(const RequestFields& fields, const Engine& engine,
                            const Caller& caller) {
  EmbeddingAsk ask;
  ask.base.embedding = true;
  read_scheduling(fields, engine, caller, ask.base);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw bad_field(
        "encoding_format",
        fmt::format("encoding_format: got '{}', wanted float or base64", clipped_utf8(format, 40)));
  ask.base64 = format == "base64";
  const int64_t size = engine.model().config.hidden_size;
  if (const auto dimensions = fields.integer("dimensions", 1, INT64_MAX);
      dimensions && *dimensions != size)
    throw unsupported_field(
        "dimensions",
        fmt::format("dimensions: got {}, this model's embeddings have {}", *dimensions, size));
  fields.text("user");
  const Json* input = fields.find("input");
  if (input == nullptr) throw bad_field("input", "input: missing");
  ask.inputs = read_prompts(*input, "input", engine, ControlText::as_text, kMostInputs);
  for (const Prompt& p : ask.inputs)
    if (static_cast<int64_t>(p.ids.size()) > engine.context_length())
      throw to_api_error(
          ContextLengthError(engine.context_length(), static_cast<int64_t>(p.ids.size()), 0),
          "input");
  return ask;
}

std::string base64_floats(const std::vector<float>& values) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());  // x86 is little-endian
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(bytes.size() - i, 3);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= left ? kAlphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

class EmbeddingCall::Sink final : public ResultSink {
 public:
  Sink(std::shared_ptr<EmbeddingCall> call, size_t input) : call_(std::move(call)), input_(input) {}
  void on_token(const TokenEvent& event) override { how_ = event.finish; }
  void on_embedding(const std::vector<float>& embedding) override { embedding_ = embedding; }
  void on_done(const RequestSummary&) override {
    call_->on_done(input_, std::move(embedding_), how_);
  }

 private:
  const std::shared_ptr<EmbeddingCall> call_;
  const size_t input_;
  std::vector<float> embedding_;
  FinishReason how_ = FinishReason::none;
};

EmbeddingCall::EmbeddingCall(std::shared_ptr<net::Exchange> exchange,
                             std::shared_ptr<Engine> engine, Metrics& metrics, std::string model,
                             net::Headers headers)
    : exchange_(std::move(exchange)),
      engine_(std::move(engine)),
      metrics_(metrics),
      model_(std::move(model)),
      headers_(std::move(headers)) {}

void EmbeddingCall::start(EmbeddingAsk ask) {
  ask_ = std::move(ask);
  embeddings_.resize(ask_.inputs.size());
  // The first refusal is the request's; later ones end it as failed.
  const size_t first = std::min(kInFlight, ask_.inputs.size());
  submitted_ = first;
  for (size_t i = 0; i < first; ++i) {
    const Submit result = submit_next(i);
    if (result == Submit::accepted) continue;
    on_client_gone();
    throw refusal(result, engine_->stats());
  }
  exchange_->on_client_gone([call = weak_from_this()] {
    if (const auto alive = call.lock()) alive->on_client_gone();
  });
}

Submit EmbeddingCall::submit_next(size_t input) {
  GenerationRequest request = ask_.base;
  request.prompt = ask_.inputs[input].ids;
  if (request.timeout_seconds > 0) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - arrived_;
    request.timeout_seconds = std::max(request.timeout_seconds - elapsed.count(), 1e-6);
  }
  uint64_t id = 0;
  const Submit result =
      engine_->submit(std::move(request), std::make_shared<Sink>(shared_from_this(), input), id);
  if (result != Submit::accepted) return result;
  const std::lock_guard lock(mutex_);
  request_ids_.push_back(id);
  return result;
}

void EmbeddingCall::on_client_gone() {
  std::vector<uint64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    ids = request_ids_;
  }
  for (uint64_t id : ids) engine_->cancel(id);
}

void EmbeddingCall::on_done(size_t input, std::vector<float> embedding, FinishReason how) {
  size_t next = 0;
  {
    const std::lock_guard lock(mutex_);
    failed_ = failed_ || how == FinishReason::error;
    timed_out_ = timed_out_ || how == FinishReason::timeout;
    cancelled_ = cancelled_ || how == FinishReason::cancelled;
    embeddings_[input] = std::move(embedding);
    ++done_;
    const bool stop = failed_ || cancelled_ || timed_out_ || gone_;
    if (stop && done_ < submitted_) return;
    if (done_ == ask_.inputs.size() || stop) {
      finish();
      return;
    }
    if (submitted_ == ask_.inputs.size()) return;
    next = submitted_++;
  }
  if (submit_next(next) == Submit::accepted) return;
  on_done(next, {}, FinishReason::cancelled);
}

ApiError EmbeddingCall::fault(Outcome outcome) {
  if (outcome == Outcome::failed)
    return {500, "internal_error", "the model could not compute an embedding", "internal"};
  if (outcome == Outcome::timed_out) return timeout_error();
  ApiError error{503, "service_unavailable_error", "the server is overloaded or shutting down",
                 "overloaded"};
  error.retry_after_seconds = 1;
  return error;
}

// Called with the mutex held.
void EmbeddingCall::finish() {
  const Outcome outcome = failed_      ? Outcome::failed
                          : gone_      ? Outcome::aborted
                          : timed_out_ ? Outcome::timed_out
                          : cancelled_ ? Outcome::overloaded
                                       : Outcome::completed;
  metrics_.count_request(outcome);
  if (gone_) return;
  if (outcome != Outcome::completed) {
    net::Response response = error_response(fault(outcome));
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    exchange_->respond(std::move(response));
    return;
  }
  Usage usage;
  OrderedJson body;
  body["object"] = "list";
  body["data"] = OrderedJson::array();
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    usage.prompt_tokens += static_cast<int64_t>(ask_.inputs[i].ids.size());
    OrderedJson entry;
    entry["object"] = "embedding";
    entry["index"] = i;
    if (ask_.base64)
      entry["embedding"] = base64_floats(embeddings_[i]);
    else
      entry["embedding"] = embeddings_[i];
    body["data"].push_back(std::move(entry));
  }
  body["model"] = model_;
  body["usage"]["prompt_tokens"] = usage.prompt_tokens;
  body["usage"]["total_tokens"] = usage.prompt_tokens;
  metrics_.count_tokens(usage.prompt_tokens, 0);
  net::Response response;
  response.headers = headers_;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = to_json_text(body);
  exchange_->respond(std::move(response));
}

}  // namespace strata::server
