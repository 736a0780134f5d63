#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/worker_pool.h"

namespace strata::server {

// A name under which a model is served; several names may share one engine.
struct ServedModel {
  std::string name;
  std::shared_ptr<Engine> engine;  // nullptr: known, and loaded when somebody asks for it
  int64_t created = 0;             // Unix time
  std::string path;                // what it was loaded from
};

struct ModelSettings {
  // Makes an engine of a file; nullptr: models are neither loaded nor evicted at run time. Called
  // on the set's own thread.
  std::function<std::shared_ptr<Engine>(const std::string& path)> load;
  // Bytes that engine will take, as far as can be told before.
  std::function<uint64_t(const std::string& path)> estimate;
  uint64_t budget_bytes = 0;  // of all engines together; 0: no limit
  double drain_timeout_seconds = 30;
};

// The models of a server. Any thread may ask for one; loading and unloading happen one at a time on
// a thread of the set's own. When a budget is set, the engine that was asked for least recently and
// has nothing to do gives way to one that is to be loaded; its names stay known, and the next
// request for one of them loads it again.
//
// Who answers a request holds the engine meanwhile: an engine is given up only after its requests
// have ended, and always on the set's thread, never on its own.
class ModelSet {
 public:
  explicit ModelSet(ModelSettings settings);
  ~ModelSet();  // cancels what runs
  ModelSet(const ModelSet&) = delete;
  ModelSet& operator=(const ModelSet&) = delete;

  enum class State : uint8_t { unloaded, loading, ready };
  struct Entry {
    ServedModel model;
    State state = State::unloaded;
    uint64_t used = 0;  // larger: asked for later
  };

  // Once, before requests come.
  void set(std::vector<ServedModel> models);
  // All that are known, in the order in which they were named.
  std::vector<Entry> entries() const;
  // The engines that are loaded, each once.
  std::vector<std::shared_ptr<Engine>> engines() const;
  // The model of that name; the first one without a name. Throws ApiError 404, or 503 while it is
  // loaded (which begins here when it was not).
  ServedModel find(const std::optional<std::string>& name);

  // What became of a load() or unload(): nullptr, or why not. Called on the set's thread.
  using Done = std::function<void(std::exception_ptr)>;
  // Throw ApiError when the set takes no orders or too many wait.
  void load(const std::string& name, const std::string& path, Done done);
  void unload(const std::string& name, Done done);
  // Takes no new requests; returns when the running ones have ended or the time has passed.
  void drain(double timeout_seconds);
  // Running, waiting and pages of the loaded engines; counters of those that were, too.
  EngineStats stats() const;

 private:
  void order(std::function<void()> job);
  Entry* entry(std::string_view name);
  void load_now(const std::string& name, const std::string& path);
  void unload_now(const std::string& name);
  void make_room(const std::string& path);
  std::shared_ptr<Engine> take_idle_engine();
  void retire(std::shared_ptr<Engine> engine, double timeout_seconds);

  const ModelSettings settings_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  EngineStats retired_;  // counters of engines that are gone
  WorkerPool thread_;    // last: its jobs use the rest
};

}  // namespace strata::server
