#include "server/model_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/log.h"
#include "base/utf8.h"
#include "server/api_error.h"

namespace strata::server {
namespace {

constexpr size_t kMostOrders = 64;
constexpr int kRetrySeconds = 2;
// How long the last answers of an engine may take to let go of it.
constexpr auto kLetGo = std::chrono::seconds(10);
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Counters only: they outlive an engine.
void add_counters(EngineStats& sum, const EngineStats& s) {
  sum.steps += s.steps;
  sum.step_rows += s.step_rows;
  sum.padding_rows += s.padding_rows;
  sum.preemptions += s.preemptions;
  sum.swaps += s.swaps;
  sum.swap_written_bytes += s.swap_written_bytes;
  sum.swap_read_bytes += s.swap_read_bytes;
  sum.prefix_hit_tokens += s.prefix_hit_tokens;
  sum.prefix_miss_tokens += s.prefix_miss_tokens;
}

ApiError unavailable(const std::string& message, const char* code) {
  ApiError error{503, "service_unavailable_error", message, code};
  error.retry_after_seconds = kRetrySeconds;
  return error;
}

ApiError not_found(std::string_view name, const std::vector<ModelSet::Entry>& entries) {
  std::string names;
  for (const ModelSet::Entry& e : entries) names += (names.empty() ? "" : ", ") + e.model.name;
  return {404, "not_found_error",
          fmt::format("no model '{}'; there are: {}", clipped_utf8(name, 120), names),
          "model_not_found", "model"};
}

}  // namespace

ModelSet::ModelSet(ModelSettings settings)
    : settings_(std::move(settings)), thread_(1, kMostOrders) {}

ModelSet::~ModelSet() {
  std::vector<std::shared_ptr<Engine>> last = engines();
  {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }
  for (std::shared_ptr<Engine>& engine : last) retire(std::move(engine), 0);
}

void ModelSet::set(std::vector<ServedModel> models) {
  const std::lock_guard lock(mutex_);
  for (ServedModel& model : models) {
    const State state = model.engine == nullptr ? State::unloaded : State::ready;
    entries_.push_back({std::move(model), state, 0});
  }
}

std::vector<ModelSet::Entry> ModelSet::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::vector<std::shared_ptr<Engine>> ModelSet::engines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Engine>> out;
  for (const Entry& e : entries_)
    if (e.model.engine != nullptr && std::find(out.begin(), out.end(), e.model.engine) == out.end())
      out.push_back(e.model.engine);
  return out;
}

ModelSet::Entry* ModelSet::entry(std::string_view name) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return e.model.name == name; });
  return it == entries_.end() ? nullptr : &*it;
}

ServedModel ModelSet::find(const std::optional<std::string>& name) {
  const std::lock_guard lock(mutex_);
  Entry* found = name ? entry(*name) : entries_.empty() ? nullptr : &entries_.front();
  if (found == nullptr) throw not_found(name.value_or(""), entries_);
  found->used = ++clock_;
  if (found->state == State::ready) return found->model;
  if (found->state == State::unloaded) {
    order([this, wanted = found->model.name, path = found->model.path] {
      try {
        load_now(wanted, path);
      } catch (const std::exception& e) {
        log_error("{}: cannot be loaded: {}", wanted, e.what());
      }
    });
    found->state = State::loading;
  }
  throw unavailable(fmt::format("the model '{}' is being loaded", found->model.name), "loading");
}

void ModelSet::order(std::function<void()> job) {
  if (!settings_.load)
    throw ApiError(400, "invalid_request_error", "this server does not load models", "unsupported");
  if (!thread_.post(std::move(job)))
    throw unavailable("too many models wait to be loaded", "overloaded");
}

void ModelSet::load(const std::string& name, const std::string& path, Done done) {
  order([this, name, path, done = std::move(done)] {
    std::exception_ptr error;
    try {
      load_now(name, path);
    } catch (...) {
      error = std::current_exception();
    }
    done(error);
  });
}

void ModelSet::unload(const std::string& name, Done done) {
  order([this, name, done = std::move(done)] {
    std::exception_ptr error;
    try {
      unload_now(name);
    } catch (...) {
      error = std::current_exception();
    }
    done(error);
  });
}

void ModelSet::load_now(const std::string& name, const std::string& path) {
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    Entry* known = entry(name);
    if (known != nullptr && known->model.path != path)
      throw ApiError(
          400, "invalid_request_error",
          fmt::format("'{}' is another model ({}); unload it first", name, known->model.path),
          "model_exists", "name");
    if (known != nullptr && known->state == State::ready) return;
    is_new = known == nullptr;
    if (is_new) entries_.push_back({{name, nullptr, std::time(nullptr), path}, State::loading, 0});
    entry(name)->state = State::loading;
  }
  std::shared_ptr<Engine> engine;
  try {
    for (const Entry& other : entries())
      if (other.model.path == path && other.model.engine != nullptr) engine = other.model.engine;
    if (engine == nullptr) {
      make_room(path);
      engine = settings_.load(path);
      log_info("{}: loaded, {} MiB", name, engine->memory_bytes() / kMiB);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (is_new)
      entries_.erase(std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.model.name == name; }));
    else
      entry(name)->state = State::unloaded;
    throw;
  }
  const std::lock_guard lock(mutex_);
  Entry* loaded = entry(name);
  loaded->model.engine = std::move(engine);
  loaded->state = State::ready;
  loaded->used = ++clock_;
}

void ModelSet::unload_now(const std::string& name) {
  std::shared_ptr<Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    Entry* known = entry(name);
    if (known == nullptr) throw not_found(name, entries_);
    engine = std::move(known->model.engine);
    entries_.erase(entries_.begin() + (known - entries_.data()));
    for (const Entry& other : entries_)
      if (other.model.engine == engine) engine = nullptr;  // goes on under another name
  }
  if (engine != nullptr) retire(std::move(engine), settings_.drain_timeout_seconds);
  log_info("{}: unloaded", name);
}

// Evicts engines until the file's is within the budget.
void ModelSet::make_room(const std::string& path) {
  if (settings_.budget_bytes == 0) return;
  const uint64_t wanted = settings_.estimate ? settings_.estimate(path) : 0;
  for (;;) {
    uint64_t used = 0;
    for (const auto& engine : engines()) used += engine->memory_bytes();
    if (used + wanted <= settings_.budget_bytes) return;
    std::shared_ptr<Engine> idle = take_idle_engine();
    if (idle == nullptr)
      fail(ErrorCode::resource_exhausted,
           "{}: about {} MiB are needed, {} of the {} MiB for models are in use by models that are "
           "answering; try again, or start with a larger --model-memory",
           path, wanted / kMiB, used / kMiB, settings_.budget_bytes / kMiB);
    retire(std::move(idle), settings_.drain_timeout_seconds);
  }
}

// Of the engines without requests the one asked for least recently; nullptr: there is none.
std::shared_ptr<Engine> ModelSet::take_idle_engine() {
  std::shared_ptr<Engine> best;
  uint64_t least = UINT64_MAX;
  const std::lock_guard lock(mutex_);
  const auto last_use = [&](const std::shared_ptr<Engine>& engine) {
    uint64_t used = 0;
    for (const Entry& e : entries_)
      if (e.model.engine == engine) used = std::max(used, e.used);
    return used;
  };
  for (const Entry& e : entries_) {
    if (e.model.engine == nullptr || last_use(e.model.engine) >= least) continue;
    const EngineStats stats = e.model.engine->stats();
    if (stats.running + stats.waiting > 0) continue;
    best = e.model.engine;
    least = last_use(best);
  }
  for (Entry& e : entries_) {
    if (best == nullptr || e.model.engine != best) continue;
    log_info("{}: makes room for another model", e.model.name);
    e.model.engine = nullptr;
    e.state = State::unloaded;
  }
  return best;
}

void ModelSet::retire(std::shared_ptr<Engine> engine, double timeout_seconds) {
  engine->drain(timeout_seconds);
  {
    const std::lock_guard lock(mutex_);
    add_counters(retired_, engine->stats());
  }
  // Whoever wrote its last answers still holds it for a moment. It must not be the last: that might
  // be the engine's own thread.
  const auto end = std::chrono::steady_clock::now() + kLetGo;
  while (engine.use_count() > 1 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void ModelSet::drain(double timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (const auto& engine : engines()) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    engine->drain(std::max(left, 0.0));
  }
}

EngineStats ModelSet::stats() const {
  EngineStats sum;
  {
    const std::lock_guard lock(mutex_);
    sum = retired_;
  }
  for (const auto& engine : engines()) {
    const EngineStats s = engine->stats();
    add_counters(sum, s);
    sum.running += s.running;
    sum.waiting += s.waiting;
    sum.pages_total += s.pages_total;
    sum.pages_used += s.pages_used;
    sum.pages_cached += s.pages_cached;
    sum.swap_used_bytes += s.swap_used_bytes;
  }
  return sum;
}

}  // namespace strata::server
