#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/kv_policy.h"
#include "engine/policy.h"
#include "engine/request.h"
#include "engine/step_log.h"
#include "model/model.h"
#include "numeric/activations.h"
#include "numeric/kv_type.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata {

struct EngineOptions {
  int threads = 0;         // 0: every usable core (affinity, cgroup quota)
  int64_t context = 0;     // 0: the model's, the most without sinks; clamped to the KV pool
  uint64_t kv_memory = 0;  // bytes; 0: a quarter of free memory, at most 4 GiB
  KvType kv_type = KvType::f16;
  int page_tokens = kDefaultPageTokens;  // of the KV cache: one of kPageSizes
  KvPolicy kv_policy = {};
  Activations activations = Activations::int8;
  int max_running = 64;    // sequences in the batch
  int batch_tokens = 512;  // rows of a step
  int queue = 256;         // requests that wait
  Policy policy = Policy::priority;
  Batching batching = Batching::continuous;
  bool length_buckets = false;      // of static batches: only prompts of like length together
  double itl_target_seconds = 0.1;  // see SchedulerOptions
  // Pages of preempted answers may be written to a nameless file of so many bytes; 0: they are
  // always computed again. Folder: see SwapSpace.
  uint64_t swap_bytes = 0;
  std::string swap_folder;
  Preemption preemption = Preemption::cheaper;  // forced by tests and by verify alone
  bool prefix_cache = true;
  std::string shared_prefix;  // text that prompts of every key may share; empty: none
  // Where prompts and answers in the prefix cache survive the engine: written when it ends, at most
  // so many bytes, and read when it begins. What cannot be used is ignored with a warning.
  std::string prompt_cache_folder;  // empty: nowhere
  int64_t prompt_cache_bytes = int64_t{1} << 30;
  // Who GenerationRequest::key 1, 2.. are, by names that do not change between two starts; beyond
  // them the key's number.
  std::vector<std::string> key_owners;
  uint64_t memory_floor = uint64_t{64} << 20;  // bytes; with less free memory: Submit::memory_low
  std::string chat_template;                   // source text; empty: the model's own
  bool strict = false;
  std::function<void(double)> progress;  // share of loading done, 0..1; may be empty
};

// What the model's files say about generating (generation_config.json); absent: API defaults.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
};

struct EngineStats {
  int running = 0;  // requests
  int waiting = 0;
  int64_t pages_total = 0, pages_used = 0, pages_cached = 0;
  double drain_requests_per_second = 0;  // leaving the queue; measured, for Retry-After
  uint64_t ticks = 0;                    // loop turns; liveness
  uint64_t steps = 0, step_rows = 0;     // passes of the model and their rows
  int64_t padding_rows = 0;              // of step_rows: those that nobody wanted
  int64_t preemptions = 0;
  int64_t swaps = 0;  // of the preemptions: those that wrote to the swap space
  int64_t swap_used_bytes = 0, swap_written_bytes = 0, swap_read_bytes = 0;
  int64_t prefix_hit_tokens = 0, prefix_miss_tokens = 0;  // of admitted prompts
};

enum class Submit : uint8_t { accepted, queue_full, memory_low, draining };

// A prompt that leaves no room to generate in the context. The message has both numbers.
class ContextLengthError : public Error {
 public:
  ContextLengthError(int64_t limit, int64_t prompt_tokens, int64_t asked_tokens);
};

// One model with its tokenizer and one loop thread that owns it. Methods may be called from any
// thread. Results do not depend on what else runs (promise 1 of docs/).
class Engine {
 public:
  virtual ~Engine() = default;  // cancels what runs, joins the loop

  static std::unique_ptr<Engine> load(const std::string& model, const EngineOptions& options);

  virtual const Model& model() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // nullptr: the model has none, or chat_template_error() says why it cannot be used.
  virtual const ChatTemplate* chat_template() const = 0;
  virtual const std::string& chat_template_error() const = 0;
  virtual const GenerationDefaults& defaults() const = 0;
  virtual const EngineOptions& options() const = 0;  // as in force: threads, context, kv_memory
  virtual int64_t context_length() const = 0;
  virtual const std::vector<TokenId>& end_tokens() const = 0;
  // Model hash, ISA level, KV type, version: what an answer depends on.
  virtual std::string fingerprint() const = 0;

  // Throws invalid_argument or unsupported for a policy that requests cannot ask for here.
  virtual void check_kv_policy(const KvPolicy& policy) const = 0;

  // Throws ContextLengthError, or invalid_argument for another request that can never run (no
  // tokens, token ids outside the vocabulary). The sink is called until on_done.
  [[nodiscard]] virtual Submit submit(GenerationRequest request, std::shared_ptr<ResultSink> sink,
                                      uint64_t& request_id) = 0;
  virtual void cancel(uint64_t request_id) = 0;

  virtual EngineStats stats() const = 0;
  // Keys and values of a text to a file, as far as the prefix cache has them, and back: the text's
  // tokens. For the owner key 1. Throw invalid_argument without a prefix cache, and as
  // prefix_file.h.
  virtual void save_session(const std::string& path, const std::vector<TokenId>& tokens) = 0;
  virtual std::vector<TokenId> load_session(const std::string& path) = 0;
  virtual const StepLog& steps() const = 0;
  virtual uint64_t memory_bytes() const = 0;  // of weights and KV cache
  // No new requests; returns when the running ones are done or `timeout_seconds` have passed (then
  // cancels them).
  virtual void drain(double timeout_seconds) = 0;
};

}  // namespace strata
