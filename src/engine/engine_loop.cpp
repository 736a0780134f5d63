#include "engine/engine_loop.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/log.h"

namespace strata {
namespace {

double seconds_between(EngineClock::time_point a, EngineClock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// How fast an old measurement of the drain rate is forgotten: half of it after about ten steps.
constexpr double kRateMemory = 0.93;
// The loop turns at least this often, so that time-outs end and the liveness count rises.
constexpr auto kIdleTurn = std::chrono::milliseconds(250);

}  // namespace

EngineLoop::EngineLoop(const Model& model, const Tokenizer& tokenizer,
                       std::vector<TokenId> end_tokens, std::unique_ptr<ServeExec> exec,
                       const LoopOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      end_tokens_(std::move(end_tokens)),
      exec_(std::move(exec)),
      options_(options),
      step_(model_, end_tokens_, options.context_length) {
  publish_stats();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Submit EngineLoop::submit(GenerationRequest request, std::shared_ptr<ResultSink> sink,
                          uint64_t& request_id) {
  auto active = std::make_unique<ActiveRequest>();
  active->submitted = EngineClock::now();
  if (request.timeout_seconds > 0)
    active->deadline =
        active->submitted + std::chrono::duration_cast<EngineClock::duration>(
                                std::chrono::duration<double>(request.timeout_seconds));
  active->request = std::move(request);
  active->sink = std::move(sink);
  active->summary.prompt_tokens = active->prompt_size();
  const int64_t room = options_.context_length - active->prompt_size();
  active->max_tokens =
      active->request.embedding ? 0 : std::min(active->request.max_tokens.value_or(room), room);
  for (int choice = 0; choice < active->request.choices; ++choice)
    active->sequences.push_back(std::make_unique<Sequence>(choice, tokenizer_, active->request));

  const std::lock_guard lock(mutex_);
  if (draining_ || stopping_) return Submit::draining;
  if (unadmitted_ >= options_.queue) return Submit::queue_full;
  request_id = active->id = next_id_++;
  ++pending_;
  ++unadmitted_;
  ++stats_.waiting;
  submitted_.push_back(std::move(active));
  wake_.notify_all();
  return Submit::accepted;
}

void EngineLoop::cancel(uint64_t request_id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(request_id);
  wake_.notify_all();
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void EngineLoop::drain(double timeout_seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto limit = std::chrono::duration<double>(timeout_seconds);
  if (idle_.wait_for(lock, limit, [&] { return pending_ == 0; })) return;
  stopping_ = true;  // the loop cancels what is left
  wake_.notify_all();
  idle_.wait(lock, [&] { return pending_ == 0; });
}

void EngineLoop::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      ++stats_.ticks;
      if (stopping_)
        for (const auto& request : active_) cancelled_.push_back(request->id);
      if (stopping_ && active_.empty() && submitted_.empty()) return;
    }
    if (turn()) continue;
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kIdleTurn,
                   [&] { return stopping_ || !submitted_.empty() || !cancelled_.empty(); });
  }
}

// Returns whether there was work.
bool EngineLoop::turn() {
  take_submitted();
  end_cancelled_and_late();
  admit();
  build_step();
  if (!step_.empty()) {
    const auto begin = EngineClock::now();
    int64_t drawn = 0;
    for (const StepPart& part : step_.parts()) drawn += part.draws() ? 1 : 0;
    try {
      step_.run(*exec_);
      const double rate = static_cast<double>(drawn) / seconds_between(begin, EngineClock::now());
      drained_tokens_per_second_ =
          kRateMemory * drained_tokens_per_second_ + (1 - kRateMemory) * rate;
    } catch (const std::exception& e) {
      fail_step(e.what());
    }
    const auto now = EngineClock::now();
    for (const StepPart& part : step_.parts())
      if (!part.request->prompt_read && !part.sequence->generated.empty())
        part.request->prompt_read = now;
  }
  const bool worked = !step_.empty();
  step_.clear();
  retire();
  publish_stats();
  return worked;
}

void EngineLoop::take_submitted() {
  const std::lock_guard lock(mutex_);
  for (auto& request : submitted_) {
    // Behind every request of the same or a higher priority.
    const auto place = std::find_if(active_.begin(), active_.end(), [&](const auto& other) {
      return !other->admitted && other->request.priority < request->request.priority;
    });
    active_.insert(place, std::move(request));
  }
  submitted_.clear();
  for (uint64_t id : cancelled_)
    for (auto& request : active_)
      if (request->id == id) request->cancelled = true;
  cancelled_.clear();
}

void EngineLoop::end_cancelled_and_late() {
  const auto now = EngineClock::now();
  for (auto& request : active_) {
    const bool late = request->deadline && now >= *request->deadline;
    if (!request->cancelled && !late) continue;
    for (auto& sequence : request->sequences)
      if (sequence->finish == FinishReason::none)
        end_sequence(*request, *sequence,
                     request->cancelled ? FinishReason::cancelled : FinishReason::timeout);
  }
  retire();
}

void EngineLoop::end_sequence(ActiveRequest& request, Sequence& sequence, FinishReason reason,
                              const char* error) {
  sequence.finish = reason;
  TokenEvent event;
  event.choice = sequence.choice;
  event.finish = reason;
  event.text = sequence.text.finish();
  event.error = error;
  request.sink->on_token(std::move(event));
}

// First come, first served within a priority: nobody overtakes a request that waits for pages.
void EngineLoop::admit() {
  int running = 0;
  for (const auto& request : active_)
    for (const auto& sequence : request->sequences) running += sequence->running() ? 1 : 0;
  for (auto& request : active_) {
    for (auto& sequence : request->sequences) {
      if (!sequence->waiting()) continue;
      if (running >= options_.max_running) return;
      const int32_t cache = exec_->create_cache();
      if (!exec_->reserve(cache, request->prompt_size() + request->max_tokens)) {
        exec_->release(cache);
        return;
      }
      sequence->cache = cache;
      ++running;
      if (!request->admitted) {
        request->admitted = EngineClock::now();
        const std::lock_guard lock(mutex_);
        --unadmitted_;
      }
    }
  }
}

void EngineLoop::build_step() {
  int64_t room = options_.batch_tokens;
  for (auto& request : active_) {
    for (auto& sequence : request->sequences) {
      if (!sequence->running() || sequence->length < request->prompt_size()) continue;
      step_.add_decode(*request, *sequence);
      --room;
    }
  }
  for (auto& request : active_) {
    for (auto& sequence : request->sequences) {
      if (!sequence->running()) continue;
      const int64_t left = request->prompt_size() - sequence->length;
      const int64_t rows = std::min(left, room);
      if (rows <= 0) continue;
      step_.add_prompt(*request, *sequence, rows);
      room -= rows;
    }
  }
}

// A fault of ours in the forward pass: the requests of this step fail, the others go on.
void EngineLoop::fail_step(const char* message) {
  log_error("engine: a step of {} rows failed: {}", step_.rows(), message);
  for (const StepPart& part : step_.parts())
    if (part.sequence->finish == FinishReason::none)
      end_sequence(*part.request, *part.sequence, FinishReason::error, "internal error");
}

// Gives back the caches of ended sequences and says goodbye to ended requests.
void EngineLoop::retire() {
  for (auto& request : active_) {
    for (auto& sequence : request->sequences) {
      if (sequence->finish == FinishReason::none || sequence->cache < 0) continue;
      exec_->release(sequence->cache);
      sequence->cache = -1;
    }
    if (!request->finished()) continue;
    const auto now = EngineClock::now();
    RequestTimings& t = request->summary.timings;
    const auto admitted = request->admitted.value_or(now);
    const auto prompt_read = request->prompt_read.value_or(now);
    t.queue_seconds = seconds_between(request->submitted, admitted);
    t.prompt_seconds = seconds_between(admitted, prompt_read);
    t.generation_seconds = seconds_between(prompt_read, now);
    t.ttft_seconds = seconds_between(request->submitted, prompt_read);
  }
  const auto first_done = std::stable_partition(active_.begin(), active_.end(),
                                                [](const auto& r) { return !r->finished(); });
  std::vector<std::unique_ptr<ActiveRequest>> done(std::make_move_iterator(first_done),
                                                   std::make_move_iterator(active_.end()));
  active_.erase(first_done, active_.end());
  if (done.empty()) return;
  // The gauges fall before the client hears of the end, so that nobody sees a finished request run.
  {
    const std::lock_guard lock(mutex_);
    for (const auto& request : done)
      if (!request->admitted) --unadmitted_;
  }
  publish_stats();
  for (auto& request : done) request->sink->on_done(request->summary);
  {
    const std::lock_guard lock(mutex_);
    pending_ -= static_cast<int>(done.size());
  }
  idle_.notify_all();
}

void EngineLoop::publish_stats() {
  const KvPool& pages = exec_->kv();
  const std::lock_guard lock(mutex_);
  stats_.running = 0;
  stats_.waiting = static_cast<int>(submitted_.size());
  for (const auto& request : active_) ++(request->admitted ? stats_.running : stats_.waiting);
  stats_.pages_total = pages.total_pages();
  stats_.pages_used = pages.used_pages();
  stats_.drain_tokens_per_second = drained_tokens_per_second_;
}

}  // namespace strata
