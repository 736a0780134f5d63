#include "engine/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <future>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/start_thread.h"
#include "engine/memory_budget.h"

namespace strata {
namespace {

// Over this time the rate at which requests leave the queue is measured.
constexpr double kDrainSeconds = 20;
// Free memory is looked up this often.
constexpr double kMemorySeconds = 0.25;
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
      step_(model_, end_tokens_, options.context_length),
      prefix_cache_(options.prefix_cache
                        ? std::make_unique<PrefixCache>(exec_->kv(), options.shared_prefixes)
                        : nullptr),
      swap_(options.swap_bytes > 0
                ? std::make_unique<SwapSpace>(options.swap_folder, options.swap_bytes)
                : nullptr),
      scheduler_(options.scheduler, exec_->kv(), prefix_cache_.get(), swap_.get()) {
  publish_stats();
  thread_ = start_thread([this] { run(); });
}

EngineLoop::~EngineLoop() { end(); }

void EngineLoop::end() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
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
  if (memory_low_) return Submit::memory_low;
  if (stats_.waiting >= options_.queue) return Submit::queue_full;
  request_id = active->id = next_id_++;
  ++pending_;
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

void EngineLoop::with_prefixes(const PrefixWork& work) {
  if (!thread_.joinable()) return work(exec_->kv(), prefix_cache_.get());
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) fail(ErrorCode::cancelled, "the engine has been stopped");
    orders_.emplace_back([&] {
      try {
        work(exec_->kv(), prefix_cache_.get());
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
  }
  wake_.notify_all();
  done.get_future().get();
}

void EngineLoop::run_orders() {
  std::vector<std::function<void()>> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
  }
  for (const auto& order : orders) order();
}

void EngineLoop::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      ++stats_.ticks;
      if (stopping_)
        for (const auto& request : active_) cancelled_.push_back(request->id);
      if (stopping_ && active_.empty() && submitted_.empty() && orders_.empty()) return;
    }
    bool worked = false;
    try {
      worked = turn();
    } catch (const std::exception& e) {
      fail_turn(e.what());
    }
    if (worked) continue;
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kIdleTurn, [&] {
      return stopping_ || !submitted_.empty() || !cancelled_.empty() || !orders_.empty();
    });
  }
}

// Returns whether there was work.
bool EngineLoop::turn() {
  run_orders();
  take_submitted();
  end_cancelled_and_late();
  for (const PlannedRows& p : scheduler_.plan(active_, EngineClock::now()))
    step_.add(*p.request, *p.sequence, p.rows);
  for (const PaddingRows& rows : scheduler_.padding()) step_.add_padding(rows);
  const bool worked = !step_.empty();
  if (worked) run_step();
  step_.clear();
  retire();
  publish_stats();
  return worked;
}

void EngineLoop::run_step() {
  const double begin_seconds = log_.seconds();
  ++steps_;
  step_rows_ += static_cast<uint64_t>(step_.rows());
  log_parts_.clear();
  for (const Scheduler::Preempted& p : scheduler_.preempted())
    log_parts_.push_back({p.request, p.choice, 0,
                          p.swapped ? StepRecord::Kind::swapped : StepRecord::Kind::preempted});
  for (const StepPart& part : step_.parts()) {
    const bool reads = part.rows > 1 || part.reads_prompt();
    log_parts_.push_back({part.request->id, part.sequence->choice, part.rows,
                          reads ? StepRecord::Kind::prompt : StepRecord::Kind::token});
  }
  try {
    step_.run(*exec_);
    const double seconds = log_.seconds() - begin_seconds;
    log_step(begin_seconds, seconds);
    scheduler_.finish_step(seconds);
  } catch (const std::exception& e) {
    fail_step(e.what());
  }
  const auto now = EngineClock::now();
  for (const StepPart& part : step_.parts())
    if (!part.request->prompt_read && !part.sequence->generated.empty())
      part.request->prompt_read = now;
}

void EngineLoop::log_step(double begin_seconds, double seconds) {
  const KvPool& kv = exec_->kv();
  StepRecord record;
  record.begin_seconds = begin_seconds;
  record.seconds = seconds;
  for (const PaddingRows& rows : scheduler_.padding()) record.padding_rows += rows.rows;
  record.held_bytes = kv.held_bytes();
  record.cached_bytes = kv.cached_bytes();
  if (swap_) record.swapped_bytes = swap_->used_bytes();
  record.cpu_seconds = process_cpu_seconds();
  for (const auto& request : active_) {
    ++(request->admitted ? record.running : record.waiting);
    for (const auto& sequence : request->sequences)
      if (sequence->running()) {
        record.wasted_bytes += kv.waste_bytes(sequence->cache);
        record.needed_bytes += kv.needed_bytes(sequence->cache);
        record.contiguous_bytes += kv.bytes_of(request->prompt_size() + request->max_tokens);
      }
  }
  log_.add(record, log_parts_);
}

void EngineLoop::take_submitted() {
  const std::lock_guard lock(mutex_);
  for (auto& request : submitted_) active_.push_back(std::move(request));
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
  request.sink->on_token(event);
}

// A fault of ours in the forward pass: the requests of this step fail, the others go on.
void EngineLoop::fail_step(const char* message) {
  log_error("engine: a step of {} rows failed: {}", step_.rows(), message);
  scheduler_.step_failed();
  for (const StepPart& part : step_.parts())
    if (part.sequence->finish == FinishReason::none)
      end_sequence(*part.request, *part.sequence, FinishReason::error, "internal error");
}

// A fault of ours between steps: whom it concerns is not known, so all requests fail; new ones find
// the pool and the prefix cache empty.
void EngineLoop::fail_turn(const char* message) {
  log_error("engine: {} requests failed: {}", active_.size(), message);
  step_.clear();
  scheduler_.step_failed();
  for (auto& request : active_)
    for (auto& sequence : request->sequences) {
      if (sequence->finish == FinishReason::none)
        end_sequence(*request, *sequence, FinishReason::error, "internal error");
      sequence->finish = FinishReason::error;  // its keys and values are not kept
    }
  retire();
  if (prefix_cache_) prefix_cache_->clear();
}

// Gives back the caches of ended sequences and says goodbye to ended requests.
void EngineLoop::retire() {
  for (auto& request : active_) {
    for (auto& sequence : request->sequences) {
      if (sequence->finish != FinishReason::none) scheduler_.release(*request, *sequence);
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
  const auto now = EngineClock::now();
  if (options_.memory_floor > 0 && seconds_between(memory_checked_, now) > kMemorySeconds) {
    memory_checked_ = now;
    const bool low = available_memory() < options_.memory_floor;
    const std::lock_guard lock(mutex_);
    memory_low_ = low;
  }
  const double decay = std::exp(-seconds_between(drained_since_, now) / kDrainSeconds);
  drained_since_ = now;
  drained_ = drained_ * decay + static_cast<double>(scheduler_.admitted() - seen_admitted_);
  seen_admitted_ = scheduler_.admitted();

  const std::lock_guard lock(mutex_);
  stats_.drain_requests_per_second = drained_ / kDrainSeconds;
  stats_.running = 0;
  stats_.waiting = static_cast<int>(submitted_.size());
  for (const auto& request : active_) ++(request->admitted ? stats_.running : stats_.waiting);
  stats_.pages_total = pages.total_pages();
  stats_.pages_used = pages.used_pages();
  stats_.pages_cached = pages.cached_pages();
  stats_.steps = steps_;
  stats_.step_rows = step_rows_;
  stats_.padding_rows = scheduler_.padding_rows();
  stats_.preemptions = scheduler_.preemptions();
  stats_.swaps = scheduler_.swaps();
  if (swap_) {
    stats_.swap_used_bytes = swap_->used_bytes();
    stats_.swap_written_bytes = swap_->written_bytes();
    stats_.swap_read_bytes = swap_->read_bytes();
  }
  stats_.prefix_hit_tokens = scheduler_.cached_tokens();
  stats_.prefix_miss_tokens = scheduler_.computed_tokens();
}

}  // namespace strata
