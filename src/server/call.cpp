#include "server/call.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/utf8.h"
#include "net/sse.h"

namespace strata::server {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A stream whose reader is this far behind is given up.
constexpr size_t kMostQueuedBytes = 16u << 20;

}  // namespace

// Takes the results of one prompt to the call.
class Call::Sink final : public ResultSink {
 public:
  Sink(std::shared_ptr<Call> call, size_t prompt) : call_(std::move(call)), prompt_(prompt) {}
  void on_prompt(const std::vector<TokenLogprob>& logprobs) override {
    call_->on_prompt(prompt_, logprobs);
  }
  void on_token(const TokenEvent& event) override { call_->on_token(prompt_, event); }
  void on_done(const RequestSummary& summary) override { call_->on_done(summary); }

 private:
  const std::shared_ptr<Call> call_;
  const size_t prompt_;
};

Call::Call(std::shared_ptr<net::Exchange> exchange, std::shared_ptr<Engine> engine,
           Metrics& metrics, AnswerHead head, net::Headers headers)
    : exchange_(std::move(exchange)),
      engine_(std::move(engine)),
      metrics_(metrics),
      head_(std::move(head)),
      headers_(std::move(headers)) {}

void Call::start(const GenerationAsk& ask, std::vector<Prompt> prompts, bool echo) {
  ask_ = ask;
  prompts_ = std::move(prompts);
  echo_ = echo;
  headers_.emplace_back("X-Strata-Seed", std::to_string(ask.base.sampling.seed));
  const auto per_prompt = static_cast<size_t>(ask.base.choices);
  choices_.resize(prompts_.size() * per_prompt);
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].result.index = static_cast<int>(i);

  for (size_t i = 0; i < prompts_.size(); ++i) {
    GenerationRequest request = ask.base;
    request.prompt = prompts_[i].ids;
    request.prompt_index = static_cast<uint32_t>(i);
    uint64_t id = 0;
    Submit result = Submit::draining;
    try {
      result =
          engine_->submit(std::move(request), std::make_shared<Sink>(shared_from_this(), i), id);
    } catch (...) {
      on_client_gone();  // ends the prompts submitted before this one
      throw;
    }
    if (result == Submit::accepted) {
      const std::lock_guard lock(mutex_);
      request_ids_.push_back(id);
      continue;
    }
    on_client_gone();
    throw refusal(result, engine_->stats());
  }
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    all_submitted_ = true;
    done = prompts_done_ == prompts_.size();
  }
  if (done) finish();
  exchange_->on_client_gone([call = weak_from_this()] {
    if (const auto alive = call.lock()) alive->on_client_gone();
  });
}

void Call::on_client_gone() {
  std::vector<uint64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    gone_ = true;
    ids = request_ids_;
  }
  for (uint64_t id : ids) engine_->cancel(id);
}

bool Call::ping() {
  const std::lock_guard lock(mutex_);
  if (finished_ || gone_) return false;
  for (const Choice& choice : choices_)
    if (choice.tokens > 0) return false;
  begin_stream();
  exchange_->write(std::string(net::kSsePing));
  return true;
}

void Call::begin_stream() {
  if (stream_begun_) return;
  stream_begun_ = true;
  net::Headers headers = headers_;
  headers.emplace_back("Content-Type", "text/event-stream");
  headers.emplace_back("Cache-Control", "no-cache");
  exchange_->begin_stream(200, std::move(headers));
}

Usage Call::usage_so_far() const {
  Usage usage;
  for (const Prompt& prompt : prompts_)
    usage.prompt_tokens += static_cast<int64_t>(prompt.ids.size());
  for (const Choice& choice : choices_) usage.completion_tokens += choice.tokens;
  return usage;
}

void Call::send_chunk(OrderedJson chunk) {
  if (ask_.continuous_usage && !chunk["choices"].empty())
    chunk["usage"] = usage_json(usage_so_far());
  begin_stream();
  exchange_->write(net::sse_data(to_json_text(chunk)));
}

void Call::send_plain_event(Choice& choice, const TokenEvent& event) {
  OrderedJson data;
  data["token"] = event.text;
  data["position"] = choice.tokens - 1;
  begin_stream();
  exchange_->write(net::sse_data(to_json_text(data)));
}

void Call::send_event(Choice& choice, const TokenEvent& event) {
  const bool with_logprobs = ask_.base.top_logprobs >= 0;
  if (head_.form == AnswerForm::generate) {
    if (!event.ids.empty() || !event.text.empty()) send_plain_event(choice, event);
    return;
  }
  const bool says_something = !event.text.empty() || (with_logprobs && !event.logprobs.empty()) ||
                              (ask_.continuous_usage && !event.ids.empty());
  // A chat choice opens with its role, also when it ends without a word.
  if (says_something || (!choice.begun && head_.form == AnswerForm::chat)) {
    ChoiceResult delta;
    delta.index = choice.result.index;
    delta.text = event.text;
    delta.logprobs = event.logprobs;
    delta.first_offset = choice.offset;
    send_chunk(delta_chunk(head_, engine_->tokenizer(), delta, !choice.begun,
                           with_logprobs && !event.logprobs.empty()));
    choice.begun = true;
  }
  if (event.finish != FinishReason::none)
    send_chunk(finish_chunk(head_, choice.result.index, event.finish));
}

void Call::on_token(size_t prompt, const TokenEvent& event) {
  const std::lock_guard lock(mutex_);
  const auto per_prompt = static_cast<size_t>(ask_.base.choices);
  Choice& choice = choices_[prompt * per_prompt + static_cast<size_t>(event.choice)];
  const auto now = std::chrono::steady_clock::now();
  if (!event.ids.empty()) {
    if (choice.tokens == 0)
      metrics_.observe_ttft(seconds_since(arrived_));
    else
      metrics_.observe_inter_token(std::chrono::duration<double>(now - choice.last_token).count());
    choice.last_token = now;
    choice.tokens += static_cast<int64_t>(event.ids.size());
  }
  choice.result.finish = event.finish;
  const bool faulty = event.finish == FinishReason::error ||
                      event.finish == FinishReason::cancelled ||
                      (event.finish == FinishReason::timeout && choice.tokens == 0);
  if (ask_.stream && !gone_ && !faulty) {
    send_event(choice, event);
    if (exchange_->queued_bytes() > kMostQueuedBytes) {
      gone_ = true;
      for (uint64_t id : request_ids_) engine_->cancel(id);
    }
  }
  choice.offset += count_code_points(event.text);
  if (ask_.stream) return;
  choice.result.text += event.text;
  choice.result.logprobs.insert(choice.result.logprobs.end(), event.logprobs.begin(),
                                event.logprobs.end());
}

// With echo each answer begins with its prompt.
void Call::on_prompt(size_t prompt, const std::vector<TokenLogprob>& logprobs) {
  if (!echo_) return;
  const std::lock_guard lock(mutex_);
  const auto per_prompt = static_cast<size_t>(ask_.base.choices);
  for (size_t i = prompt * per_prompt; i < (prompt + 1) * per_prompt; ++i) {
    Choice& choice = choices_[i];
    TokenEvent event;
    event.text = prompts_[prompt].text;
    event.logprobs = logprobs;
    if (ask_.stream && !gone_) send_event(choice, event);
    choice.offset = count_code_points(event.text);
    if (ask_.stream) continue;
    choice.result.text = std::move(event.text);
    choice.result.logprobs = std::move(event.logprobs);
  }
}

void Call::on_done(const RequestSummary& summary) {
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    usage_.prompt_tokens += summary.prompt_tokens;
    usage_.completion_tokens += summary.completion_tokens;
    usage_.cached_tokens += summary.cached_tokens;
    timings_ = summary.timings;
    metrics_.observe_queue(summary.timings.queue_seconds);
    done = ++prompts_done_ == prompts_.size() && all_submitted_;
  }
  if (done) finish();
}

Outcome Call::outcome() const {
  const auto any = [&](FinishReason reason) {
    return std::any_of(choices_.begin(), choices_.end(),
                       [&](const Choice& c) { return c.result.finish == reason; });
  };
  if (any(FinishReason::error)) return Outcome::failed;
  if (gone_) return Outcome::aborted;
  if (any(FinishReason::cancelled)) return Outcome::overloaded;
  if (any(FinishReason::timeout)) return Outcome::timed_out;
  return Outcome::completed;
}

ApiError Call::fault() const {
  switch (outcome()) {
    case Outcome::overloaded:
      return drained_error();
    case Outcome::timed_out:
      return timeout_error();
    default:
      return {500, "internal_error", "the model could not compute an answer", "internal"};
  }
}

void Call::finish_whole(Outcome outcome) {
  const bool nothing =
      std::all_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.tokens == 0; });
  if (outcome == Outcome::failed || outcome == Outcome::overloaded ||
      (outcome == Outcome::timed_out && nothing)) {
    net::Response response = error_response(fault());
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    exchange_->respond(std::move(response));
    return;
  }
  std::vector<ChoiceResult> results;
  for (Choice& choice : choices_) results.push_back(std::move(choice.result));
  OrderedJson body;
  if (head_.form == AnswerForm::generate) {
    body["text"] = results.front().text;
    body["finish_reason"] = finish_reason_text(results.front().finish);
    body["usage"] = usage_json(usage_);
    body["request_id"] = head_.id;
  } else {
    body = whole_answer(head_, engine_->tokenizer(), results, ask_.base.top_logprobs >= 0, usage_);
  }
  if (ask_.timings) body["timings"] = timings_json(timings_, usage_);
  net::Response response;
  response.headers = headers_;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = to_json_text(body);
  exchange_->respond(std::move(response));
}

void Call::finish() {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  finished_ = true;
  const Outcome how = outcome();
  metrics_.count_request(how);
  metrics_.count_tokens(usage_.prompt_tokens, usage_.completion_tokens);
  if (gone_) return;
  const bool faulty = how == Outcome::failed || how == Outcome::overloaded;
  const bool nothing_sent = !stream_begun_;
  if (!ask_.stream || (nothing_sent && how != Outcome::completed)) {
    finish_whole(how);
    return;
  }
  begin_stream();
  if (faulty) {
    exchange_->write(error_stream_tail(fault()));
  } else {
    if (head_.form == AnswerForm::generate) {
      OrderedJson last;
      last["finish_reason"] = finish_reason_text(choices_.front().result.finish);
      last["usage"] = usage_json(usage_);
      if (ask_.timings) last["timings"] = timings_json(timings_, usage_);
      exchange_->write(net::sse_data(to_json_text(last)));
    } else if (ask_.include_usage || ask_.timings) {
      OrderedJson chunk = usage_chunk(head_, usage_);
      if (!ask_.include_usage) chunk.erase("usage");
      if (ask_.timings) chunk["timings"] = timings_json(timings_, usage_);
      exchange_->write(net::sse_data(to_json_text(chunk)));
    }
    exchange_->write(std::string(net::kSseDone));
  }
  exchange_->end_stream();
}

}  // namespace strata::server
