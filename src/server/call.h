#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "net/http_server.h"
#include "server/answers.h"
#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/metrics.h"

namespace strata::server {

// One HTTP request while it is being answered: it submits one engine request per prompt, collects
// what comes back, and writes one answer or one stream. Lives as long as the engine or the
// connection refers to it. Callbacks come from the engine's and the io thread.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<net::Exchange> exchange, std::shared_ptr<Engine> engine, Metrics& metrics,
       AnswerHead head, net::Headers headers);

  // Submits and returns; throws ApiError when the request cannot run at all.
  void start(const GenerationAsk& ask, std::vector<Prompt> prompts, bool echo);
  // A sign of life for a stream without tokens yet. Returns false once it is not wanted any more.
  bool ping();

 private:
  class Sink;

  struct Choice {
    ChoiceResult result;
    bool begun = false;  // a delta was sent
    int64_t offset = 0;  // code points of the text so far
    std::chrono::steady_clock::time_point last_token;
    int64_t tokens = 0;
  };

  void on_prompt(size_t prompt, const std::vector<TokenLogprob>& logprobs);
  void on_token(size_t prompt, const TokenEvent& event);
  void on_done(const RequestSummary& summary);
  void on_client_gone();
  void begin_stream();
  void send_event(Choice& choice, const TokenEvent& event);
  void send_plain_event(Choice& choice, const TokenEvent& event);
  void send_chunk(OrderedJson chunk);
  void finish();
  void finish_whole(Outcome outcome);
  Outcome outcome() const;
  ApiError fault() const;
  Usage usage_so_far() const;

  const std::shared_ptr<net::Exchange> exchange_;
  const std::shared_ptr<Engine> engine_;
  Metrics& metrics_;
  const AnswerHead head_;
  net::Headers headers_;
  GenerationAsk ask_;
  std::vector<Prompt> prompts_;
  bool echo_ = false;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::vector<uint64_t> request_ids_;
  std::vector<Choice> choices_;  // prompt-major
  size_t prompts_done_ = 0;
  bool all_submitted_ = false;
  bool stream_begun_ = false;
  bool finished_ = false;
  bool gone_ = false;
  Usage usage_;
  RequestTimings timings_;
};

}  // namespace strata::server
