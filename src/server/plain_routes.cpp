#include "server/plain_routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/utf8.h"
#include "server/api_error.h"
#include "server/call.h"
#include "server/field_tables.h"

namespace strata::server {
namespace {

constexpr size_t kMostRequests = 256;

// The answer of one request of a batch, caught instead of sent.
class BatchEntry;

// Collects the answers of a batch and sends them as one.
class BatchAnswer : public std::enable_shared_from_this<BatchAnswer> {
 public:
  BatchAnswer(std::shared_ptr<net::Exchange> exchange, net::Headers headers, size_t count)
      : exchange_(std::move(exchange)),
        headers_(std::move(headers)),
        bodies_(count),
        left_(count) {}

  void set(size_t index, std::string body) {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      bodies_[index] = std::move(body);
      last = --left_ == 0;
    }
    if (!last) return;
    std::string out = "{\"results\":[";
    for (size_t i = 0; i < bodies_.size(); ++i) out += (i > 0 ? "," : "") + bodies_[i];
    net::Response response;
    response.headers = headers_;
    response.headers.emplace_back("Content-Type", "application/json");
    response.body = std::move(out) + "]}";
    exchange_->respond(std::move(response));
  }
  const std::shared_ptr<net::Exchange>& exchange() const { return exchange_; }

 private:
  const std::shared_ptr<net::Exchange> exchange_;
  const net::Headers headers_;
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  size_t left_;
};

// Stands for the connection of one request of a batch.
class BatchEntry final : public net::Exchange {
 public:
  BatchEntry(std::shared_ptr<BatchAnswer> batch, size_t index)
      : batch_(std::move(batch)), index_(index) {}
  const net::Request& request() const override { return batch_->exchange()->request(); }
  void respond(net::Response response) override { batch_->set(index_, std::move(response.body)); }
  void begin_stream(int, net::Headers) override { STRATA_ASSERT(false); }
  void write(std::string) override { STRATA_ASSERT(false); }
  void end_stream() override { STRATA_ASSERT(false); }
  size_t queued_bytes() const override { return 0; }
  // The one connection has one callback: the batch's own (generate_batch) spreads it.
  void on_client_gone(std::function<void()> callback) override {
    const std::lock_guard lock(mutex_);
    gone_ = std::move(callback);
  }
  bool client_gone() const override { return batch_->exchange()->client_gone(); }
  void client_went() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      callback = gone_;
    }
    if (callback) callback();
  }

 private:
  const std::shared_ptr<BatchAnswer> batch_;
  const size_t index_;
  std::mutex mutex_;
  std::function<void()> gone_;
};

void start_entry(Context& context, const Json& body, const std::shared_ptr<BatchEntry>& entry,
                 size_t index) {
  const RequestFields fields(body, generate_fields(), context.state.settings.lenient);
  const ServedModel model = find_model(context.state, fields.text("model"));
  const GenerationAsk ask = read_generation(fields, *model.engine, context.caller);
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr || !prompt->is_string()) throw bad_field("prompt", "prompt: wanted text");
  AnswerHead head;
  head.form = AnswerForm::generate;
  head.id = fmt::format("{}-{}", context.request_id, index);
  head.model = model.name;
  std::make_shared<Call>(entry, model.engine, context.state.metrics, std::move(head),
                         net::Headers())
      ->start(ask, read_prompts(*prompt, "prompt", *model.engine, ControlText::parse, 1), false);
}

}  // namespace

void generate_batch(Context& context) {
  const RequestFields fields = read_body(context, generate_batch_fields());
  const Json* requests = fields.find("requests");
  if (requests == nullptr || !requests->is_array() || requests->empty() ||
      requests->size() > kMostRequests)
    throw bad_field(
        "requests",
        fmt::format("requests: wanted an array of 1 to {} bodies of /generate", kMostRequests));
  for (size_t i = 0; i < requests->size(); ++i)
    if (!(*requests)[i].is_object())
      throw bad_field("requests", fmt::format("requests[{}]: wanted an object", i));
  require_models(context.state);
  const auto batch =
      std::make_shared<BatchAnswer>(context.exchange, context.headers, requests->size());
  std::vector<std::shared_ptr<BatchEntry>> entries;
  for (size_t i = 0; i < requests->size(); ++i)
    entries.push_back(std::make_shared<BatchEntry>(batch, i));
  for (size_t i = 0; i < requests->size(); ++i) {
    try {
      start_entry(context, (*requests)[i], entries[i], i);
    } catch (const ApiError& e) {
      batch->set(i, error_body(e));
    } catch (const Error& e) {
      batch->set(i, error_body(to_api_error(e)));
    }
  }
  std::vector<std::weak_ptr<BatchEntry>> watched(entries.begin(), entries.end());
  context.exchange->on_client_gone([watched = std::move(watched)] {
    for (const auto& weak : watched)
      if (const auto entry = weak.lock()) entry->client_went();
  });
}

void tokenize(Context& context) {
  const RequestFields fields = read_body(context, tokenize_fields());
  const ServedModel model = find_model(context.state, fields.text("model"));
  const auto text = fields.text("text");
  if (!text) throw bad_field("text", "text: missing");
  const bool special = fields.boolean("special").value_or(false);
  const Tokenizer& tokenizer = model.engine->tokenizer();
  const auto ids =
      tokenizer.encode(*text, {special ? ControlText::parse : ControlText::as_text, true});
  OrderedJson out;
  out["ids"] = ids;
  out["pieces"] = OrderedJson::array();
  for (TokenId id : ids) out["pieces"].push_back(token_text(tokenizer, id));
  answer(context, 200, "application/json", to_json_text(out));
}

void detokenize(Context& context) {
  const RequestFields fields = read_body(context, detokenize_fields());
  const ServedModel model = find_model(context.state, fields.text("model"));
  const Json* ids = fields.find("ids");
  const auto is_number = [](const Json& value) { return value.is_number(); };
  if (ids == nullptr || !ids->is_array() || !std::all_of(ids->begin(), ids->end(), is_number))
    throw bad_field("ids", "ids: wanted an array of token ids");
  OrderedJson out;
  out["text"] = "";
  if (!ids->empty())
    out["text"] = read_prompts(*ids, "ids", *model.engine, ControlText::as_text, 1)[0].text;
  answer(context, 200, "application/json", to_json_text(out));
}

}  // namespace strata::server
