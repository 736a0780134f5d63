#include "bench/serve_client.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/philox.h"
#include "bench/timing.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace strata {
namespace {

constexpr size_t kMostThreads = 4096;
constexpr auto kCheckEvery = std::chrono::milliseconds(50);

// Each is one token, with its space, in the vocabularies of the models in the catalogue.
constexpr const char* kWords[] = {
    "time",     "year",    "people",   "way",    "day",        "man",    "thing",   "woman",
    "life",     "child",   "world",    "school", "state",      "family", "student", "group",
    "country",  "problem", "hand",     "part",   "place",      "case",   "week",    "company",
    "system",   "program", "question", "work",   "government", "number", "night",   "point",
    "home",     "water",   "room",     "mother", "area",       "money",  "story",   "fact",
    "month",    "lot",     "right",    "study",  "book",       "eye",    "job",     "word",
    "business", "issue",   "side",     "kind",   "head",       "house",  "service", "friend",
    "father",   "power",   "hour",     "game",   "line",       "end",    "member",  "law"};
constexpr size_t kWordCount = std::size(kWords);

void add_words(uint64_t seed, uint32_t stream, int64_t count, std::string& text) {
  for (int64_t i = 0; i < count; ++i) {
    const double uniform = sampling_uniform(seed, static_cast<uint32_t>(i), stream, 0);
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<size_t>(uniform * kWordCount)];
  }
}

// One thread's connection, and the calls it makes over it.
class Caller {
 public:
  // stop: ends a call at the next piece of its answer.
  Caller(const ServeClientOptions& options, double start, const std::atomic<bool>& stop)
      : options_(options), start_(start), stop_(stop), client_(client_options(options)) {
    headers_ = {{"Content-Type", "application/json"}};
    if (!options.api_key.empty())
      headers_.emplace_back("Authorization", "Bearer " + options.api_key);
  }

  void call(const PlannedCall& call, int64_t number, CallRecord& record) {
    record.sent = now_seconds() - start_;
    try {
      exchange(body_of(call, number), record);
    } catch (const Error& e) {
      record.error = e.what();
      client_.close();
    }
    record.ended = now_seconds() - start_;
  }

 private:
  static net::ClientOptions client_options(const ServeClientOptions& options) {
    net::ClientOptions client = net::parse_base_url(options.url);
    client.io_timeout_ms = options.timeout_seconds * 1000;
    return client;
  }

  std::string body_of(const PlannedCall& call, int64_t number) const {
    OrderedJson body;
    body["model"] = options_.model;
    body["prompt"] =
        prompt_text(options_.seed, number, call.prompt_tokens, options_.shared_prompt_tokens);
    body["max_tokens"] = call.output_tokens;
    body["temperature"] = 0;
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    if (options_.ignore_eos) body["ignore_eos"] = true;
    return to_json_text(body);
  }

  void exchange(const std::string& body, CallRecord& record) {
    net::SseParser parser;
    std::string refusal;
    bool done = false;
    const auto on_event = [&](const net::SseEvent& event) {
      if (event.data == "[DONE]") {
        done = true;
        return;
      }
      const Json frame = parse_json(event.data);
      if (frame.contains("error")) {
        record.error = "error in the stream: " + event.data.substr(0, 200);
        return;
      }
      if (const auto choices = frame.find("choices"); choices != frame.end())
        for (const Json& choice : *choices)
          if (const auto text = choice.find("text");
              text != choice.end() && text->is_string() && !text->get<std::string>().empty())
            record.chunks.push_back(now_seconds() - start_);
      if (const auto usage = frame.find("usage"); usage != frame.end() && usage->is_object())
        take_usage(*usage, record);
    };
    const net::ClientResponse response =
        client_.request("POST", "/v1/completions", body, headers_,
                        [&](const net::ClientResponse& head, std::string_view bytes) {
                          record.status = head.status;
                          if (head.status == 200)
                            parser.feed(bytes, on_event);
                          else if (refusal.size() < 1000)
                            refusal += bytes;
                          return !stop_.load();
                        });
    record.status = response.status;
    if (response.status != 200)
      record.error = fmt::format("status {}: {}", response.status, refusal.substr(0, 200));
    else if (record.error.empty() && !done)
      record.error = "the stream ended early";
  }

  static void take_usage(const Json& usage, CallRecord& record) {
    const auto number = [](const Json& from, const char* key) {
      const auto value = from.find(key);
      return value != from.end() && value->is_number_integer() ? value->get<int64_t>() : 0;
    };
    record.prompt_tokens = number(usage, "prompt_tokens");
    record.output_tokens = number(usage, "completion_tokens");
    if (const auto details = usage.find("prompt_tokens_details");
        details != usage.end() && details->is_object())
      record.cached_tokens = number(*details, "cached_tokens");
  }

  const ServeClientOptions& options_;
  const double start_;
  const std::atomic<bool>& stop_;
  net::HttpClient client_;
  net::Headers headers_;
};

// Threads that make the calls which are due. There are as many as calls were ever under way at
// once; an open loop never waits for one to be free.
class Callers {
 public:
  Callers(const std::vector<PlannedCall>& plan, const ServeClientOptions& options)
      : plan_(plan), options_(options), records_(plan.size()) {}
  ~Callers() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      due_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  std::vector<CallRecord> run() {
    if (options_.clients > 0) {
      for (size_t i = 0; i < plan_.size(); ++i) due_.push_back(i);
      for (int i = 0; i < options_.clients; ++i) add_thread();
    } else {
      for (size_t i = 0; i < plan_.size(); ++i) {
        wait_until(plan_[i].at_seconds);
        const std::lock_guard lock(mutex_);
        due_.push_back(i);
        if (idle_ < due_.size() && threads_.size() < kMostThreads) add_thread();
        wake_.notify_one();
      }
    }
    while (ended_ < static_cast<int64_t>(plan_.size())) look_around();
    return std::move(records_);
  }

 private:
  void add_thread() {
    threads_.emplace_back([this] { work(); });
  }

  void work() {
    Caller caller(options_, start_, closed_);
    for (;;) {
      size_t index = 0;
      {
        std::unique_lock lock(mutex_);
        ++idle_;
        wake_.wait(lock, [&] { return closed_ || !due_.empty(); });
        --idle_;
        if (due_.empty()) return;
        index = due_.front();
        due_.pop_front();
      }
      caller.call(plan_[index], static_cast<int64_t>(index), records_[index]);
      if (!records_[index].error.empty()) ++failed_;
      ++ended_;
    }
  }

  void wait_until(double seconds) {
    while (now_seconds() - start_ < seconds) {
      const double left = seconds - (now_seconds() - start_);
      if (left > std::chrono::duration<double>(kCheckEvery).count())
        look_around();
      else
        std::this_thread::sleep_for(std::chrono::duration<double>(left));
    }
  }
  void look_around() {
    std::this_thread::sleep_for(kCheckEvery);
    if (options_.progress) options_.progress(ended_, failed_);
    if (options_.check) options_.check();
  }

  const std::vector<PlannedCall>& plan_;
  const ServeClientOptions& options_;
  const double start_ = now_seconds();
  std::vector<CallRecord> records_;
  std::atomic<int64_t> ended_{0}, failed_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<size_t> due_;
  size_t idle_ = 0;
  std::atomic<bool> closed_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

std::string prompt_text(uint64_t seed, int64_t call, int64_t tokens, int64_t shared_tokens) {
  std::string text;
  const int64_t shared = std::min(tokens, shared_tokens);
  add_words(seed, 0, shared, text);
  add_words(seed, static_cast<uint32_t>(1 + call % 65'000), tokens - shared, text);
  return text;
}

std::vector<CallRecord> run_calls(const std::vector<PlannedCall>& plan,
                                  const ServeClientOptions& options) {
  return Callers(plan, options).run();
}

}  // namespace strata
