#include "engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/build_id.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "engine/chat_prompt.h"
#include "engine/engine_loop.h"
#include "engine/memory_budget.h"
#include "engine/model_files.h"
#include "engine/prefix_file.h"
#include "engine/serve_exec.h"

namespace strata {
namespace {

// The owner, in files of prompts, of pages that every key may share (--shared-prefix).
constexpr const char* kEverybody = "everybody";

class LoadedEngine final : public Engine {
 public:
  LoadedEngine(const std::string& what, const EngineOptions& asked) : options_(asked) {
    LoadOptions load;
    load.strict = options_.strict;
    model_ = load_model(resolve_model_path(what), load);
    files_ = load_model_files(*model_);
    check_vocabulary();
    const std::string& source =
        options_.chat_template.empty() ? files_.chat_template : options_.chat_template;
    if (!source.empty()) parse_template(source);

    if (options_.threads <= 0) options_.threads = usable_threads();
    // A step takes a row of every running sequence; pools have room for as many of one.
    options_.batch_tokens = std::max(options_.batch_tokens, options_.max_running);
    const MemoryBudget budget = plan_engine_memory(*model_, options_);
    options_.kv_memory = budget.kv_bytes;
    options_.context = budget.context;
    ServeExecOptions exec;
    exec.threads = options_.threads;
    exec.kv_type = options_.kv_type;
    exec.page_tokens = options_.page_tokens;
    exec.kv_policy = options_.kv_policy;
    exec.activations = options_.activations;
    exec.kv_memory = budget.kv_bytes;
    exec.context = budget.context;
    exec.max_sequences = options_.max_running;
    exec.step_rows = options_.batch_tokens;
    exec.first_token = files_.tokenizer->specials().first();
    exec.progress = options_.progress;
    auto serve = std::make_unique<ServeExec>(*model_, exec);
    if (serve->context_length() < options_.context)
      log_warning("the context is {} tokens instead of {}: the KV pool of {} MiB holds no more",
                  serve->context_length(), options_.context, options_.kv_memory >> 20);
    options_.context = std::min(options_.context, serve->context_length());
    memory_bytes_ = serve->weights().bytes() + serve->kv().bytes();

    LoopOptions loop;
    loop.scheduler.max_running = options_.max_running;
    loop.scheduler.batch_tokens = options_.batch_tokens;
    loop.scheduler.policy = options_.policy;
    loop.scheduler.batching = options_.batching;
    loop.scheduler.length_buckets = options_.length_buckets;
    loop.scheduler.preemption = options_.preemption;
    loop.swap_bytes = static_cast<int64_t>(std::min<uint64_t>(options_.swap_bytes, INT64_MAX));
    loop.swap_folder = options_.swap_folder;
    loop.scheduler.context = options_.context;
    loop.scheduler.itl_target_seconds = options_.itl_target_seconds;
    loop.queue = options_.queue;
    loop.memory_floor = options_.memory_floor;
    // Textbook batches share nothing, and padding writes to its pages. What sinks leave behind
    // cannot be taken up again.
    loop.prefix_cache = options_.prefix_cache && options_.batching == Batching::continuous &&
                        options_.kv_policy.sinks == 0;
    loop.shared_prefixes = shared_prefixes();
    loop.context_length = options_.context;
    loop_ = std::make_unique<EngineLoop>(*model_, *files_.tokenizer,
                                         find_end_tokens(files_, template_.get()), std::move(serve),
                                         loop);
    if (!options_.prompt_cache_folder.empty()) read_prompt_cache();
  }

  ~LoadedEngine() override {
    loop_->end();
    if (!options_.prompt_cache_folder.empty()) write_prompt_cache();
  }
  LoadedEngine(const LoadedEngine&) = delete;
  LoadedEngine& operator=(const LoadedEngine&) = delete;

  const Model& model() const override { return *model_; }
  const Tokenizer& tokenizer() const override { return *files_.tokenizer; }
  const ChatTemplate* chat_template() const override { return template_.get(); }
  const std::string& chat_template_error() const override { return template_error_; }
  const GenerationDefaults& defaults() const override { return files_.defaults; }
  const EngineOptions& options() const override { return options_; }
  int64_t context_length() const override { return options_.context; }
  const std::vector<TokenId>& end_tokens() const override { return loop_->end_tokens(); }

  std::string fingerprint() const override {
    const KvPolicy& policy = options_.kv_policy;
    return fmt::format(
        "strata-{}-{}-{}{}{}-{}", STRATA_VERSION, isa_level_name(isa_level()),
        kv_type_name(options_.kv_type), policy.is_full() ? "" : "-" + kv_policy_name(policy),
        options_.activations == Activations::int8 ? "" : "-int8x2", model_->hash.substr(0, 12));
  }

  void check_kv_policy(const KvPolicy& policy) const override {
    if (policy == options_.kv_policy) return;
    if (!options_.kv_policy.is_full())
      fail(ErrorCode::invalid_argument, "kv_policy: got {}, this model is served with {} alone",
           kv_policy_name(policy), kv_policy_name(options_.kv_policy));
    strata::check_kv_policy(*model_, options_.kv_type, policy);
  }

  Submit submit(GenerationRequest request, std::shared_ptr<ResultSink> sink,
                uint64_t& request_id) override {
    check(request);
    return loop_->submit(std::move(request), std::move(sink), request_id);
  }
  void cancel(uint64_t request_id) override { loop_->cancel(request_id); }
  EngineStats stats() const override { return loop_->stats(); }
  void save_session(const std::string& path, const std::vector<TokenId>& tokens) override {
    loop_->with_prefixes([&](KvPool& pool, PrefixCache* cache) {
      require(cache);
      write_prefixes(
          path, {made_by(), tokens}, pool, cache->view(1, tokens),
          [](uint32_t salt) {
            return salt == 1 ? std::optional<std::string>("session") : std::nullopt;
          },
          INT64_MAX);
    });
  }
  std::vector<TokenId> load_session(const std::string& path) override {
    std::vector<TokenId> tokens;
    loop_->with_prefixes([&](KvPool& pool, PrefixCache* cache) {
      require(cache);
      tokens = read_prefixes(
          path, made_by(), pool, *cache,
          [](const std::string& owner) {
            return owner == "session" ? std::optional<uint32_t>(1) : std::nullopt;
          },
          model_->config.vocabulary_size);
    });
    return tokens;
  }
  const StepLog& steps() const override { return loop_->steps(); }
  uint64_t memory_bytes() const override { return memory_bytes_; }
  void drain(double timeout_seconds) override { loop_->drain(timeout_seconds); }

 private:
  static void require(const PrefixCache* cache) {
    if (cache == nullptr)
      fail(ErrorCode::invalid_argument,
           "keys and values are kept by the prefix cache, which is off here (sinks, static batches "
           "and --prefix-cache off have none)");
  }

  // What bits of keys and values, and their places in pages, depend on.
  OrderedJson made_by() const {
    OrderedJson out;
    out["model"] = model_->hash;
    out["isa"] = isa_level_name(isa_level());
    out["kv_type"] = kv_type_name(options_.kv_type);
    out["page_size"] = options_.page_tokens;
    out["kv_policy"] = kv_policy_name(options_.kv_policy);
    out["activations"] = activations_name(options_.activations);
    const KvShape shape =
        kv_shape(*model_, options_.kv_type, options_.kv_policy, options_.page_tokens);
    for (size_t g = 0; g < shape.groups.size(); ++g)
      out["page_bytes"].push_back(shape.page_bytes(g));
    return out;
  }

  // Answers that begin with pages of the prompt cache are those of computing them again, so that
  // another build, whose sums may round otherwise, makes its own; in place of the old one, which
  // is why the file's name does not have it.
  OrderedJson prompt_cache_made_by() const {
    OrderedJson out = made_by();
    out["build"] = build_id();
    return out;
  }
  std::filesystem::path prompt_cache_file() const {
    return std::filesystem::path(options_.prompt_cache_folder) /
           (sha256_hex(to_json_text(made_by())).substr(0, 24) + ".prompts");
  }
  std::optional<std::string> owner_of(uint32_t salt) const {
    if (salt == PrefixCache::kSharedSalt) return kEverybody;
    const size_t index = salt - 1;
    return index < options_.key_owners.size() ? options_.key_owners[index]
                                              : fmt::format("key {}", salt);
  }
  std::optional<uint32_t> salt_of(const std::string& owner) const {
    if (owner == kEverybody) return PrefixCache::kSharedSalt;
    for (size_t i = 0; i < options_.key_owners.size(); ++i)
      if (options_.key_owners[i] == owner) return static_cast<uint32_t>(i + 1);
    if (options_.key_owners.empty() && owner == "key 1") return 1;
    return std::nullopt;
  }

  // The cache is a help: whatever is wrong with it costs a warning and the time it would have
  // saved.
  void read_prompt_cache() {
    const std::filesystem::path path = prompt_cache_file();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return;
    try {
      loop_->with_prefixes([&](KvPool& pool, PrefixCache* cache) {
        require(cache);
        read_prefixes(
            path, prompt_cache_made_by(), pool, *cache,
            [&](const std::string& owner) { return salt_of(owner); },
            model_->config.vocabulary_size);
        log_info("{}: {} pages of prompts", path.string(), pool.cached_pages());
      });
    } catch (const Error& e) {
      log_warning("prompt cache ignored: {}", e.what());
    }
  }
  void write_prompt_cache() const noexcept {
    try {
      // Prompts are whose they are. A folder that was there has the permissions it was given.
      if (std::filesystem::create_directories(options_.prompt_cache_folder))
        std::filesystem::permissions(options_.prompt_cache_folder,
                                     std::filesystem::perms::owner_all);
      loop_->with_prefixes([&](KvPool& pool, PrefixCache* cache) {
        require(cache);
        write_prefixes(
            prompt_cache_file(), {prompt_cache_made_by()}, pool, cache->view(),
            [&](uint32_t salt) { return owner_of(salt); }, options_.prompt_cache_bytes);
      });
    } catch (const std::exception& e) {
      log_warning("prompt cache not written: {}", e.what());
    }
  }

  // A template in the model's file that cannot be read takes chat away, not the model.
  void parse_template(const std::string& source) {
    try {
      template_ = std::make_unique<ChatTemplate>(ChatTemplate::parse(source));
    } catch (const Error& e) {
      if (!options_.chat_template.empty()) throw;
      template_error_ = e.what();
      log_warning("{}: the chat template cannot be used, chat will be refused: {}",
                  model_->path.string(), e.what());
    }
  }

  // The embedding may have more rows than the tokenizer has pieces (padding), never fewer.
  void check_vocabulary() const {
    const int64_t pieces = files_.tokenizer->vocabulary_size();
    if (pieces > model_->config.vocabulary_size)
      fail(ErrorCode::data_corrupt,
           "{}: the tokenizer has {} tokens, the embedding has rows for {}: they are not of one "
           "model",
           model_->path.string(), pieces, model_->config.vocabulary_size);
  }

  // The declared text as prompts begin with it: raw, and as the system message of a chat.
  std::vector<std::vector<TokenId>> shared_prefixes() const {
    std::vector<std::vector<TokenId>> out;
    if (options_.shared_prefix.empty()) return out;
    out.push_back(files_.tokenizer->encode(options_.shared_prefix, {ControlText::parse, true}));
    if (template_ == nullptr) return out;
    OrderedJson messages = OrderedJson::array();
    messages.push_back({{"role", "system"}, {"content", options_.shared_prefix}});
    messages.push_back({{"role", "user"}, {"content", ""}});
    try {
      out.push_back(chat_prompt(*this, std::move(messages)));
    } catch (const Error& e) {
      log_warning("--shared-prefix: not for chats: {}", e.what());
    }
    return out;
  }

  void check(const GenerationRequest& request) const {
    const auto size = static_cast<int64_t>(request.prompt.size());
    if (size == 0)
      fail(ErrorCode::invalid_argument, "the prompt has no tokens; it needs at least one");
    for (TokenId id : request.prompt)
      if (id < 0 || id >= model_->config.vocabulary_size)
        fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {} tokens", id,
             model_->config.vocabulary_size);
    for (const auto& [id, bias] : request.sampling.logit_bias)
      if (id < 0 || id >= model_->config.vocabulary_size)
        fail(ErrorCode::invalid_argument,
             "logit_bias: token id {} is outside the vocabulary of {} tokens", id,
             model_->config.vocabulary_size);
    if (request.kv_policy) check_kv_policy(*request.kv_policy);
    const int64_t generates = request.embedding || request.max_tokens == 0 ? 0 : 1;
    if (size + generates > options_.context)
      throw ContextLengthError(options_.context, size,
                               request.embedding ? 0 : request.max_tokens.value_or(1));
  }

  EngineOptions options_;
  std::unique_ptr<Model> model_;
  ModelFiles files_;
  std::unique_ptr<ChatTemplate> template_;
  std::string template_error_;
  uint64_t memory_bytes_ = 0;
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace

ContextLengthError::ContextLengthError(int64_t limit, int64_t prompt_tokens, int64_t asked_tokens)
    : Error(
          ErrorCode::invalid_argument,
          fmt::format("This model's maximum context length is {} tokens, but the request needs {} "
                      "({} prompt + {} to generate) (context_length_exceeded).",
                      limit, prompt_tokens + asked_tokens, prompt_tokens, asked_tokens)) {}

std::unique_ptr<Engine> Engine::load(const std::string& model, const EngineOptions& options) {
  return std::make_unique<LoadedEngine>(model, options);
}

}  // namespace strata
