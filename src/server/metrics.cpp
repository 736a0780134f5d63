#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <mutex>

namespace strata::server {
namespace {

constexpr std::array<const char*, 6> kOutcomes = {"completed", "aborted",    "timeout",
                                                  "rejected",  "overloaded", "failed"};

using Boundaries = prometheus::Histogram::BucketBoundaries;

prometheus::Histogram& add_histogram(prometheus::Registry& registry, const char* name,
                                     const char* help, const Boundaries& boundaries) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, boundaries);
}

prometheus::Gauge& add_gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Counter& add_counter(prometheus::Registry& registry, const char* name,
                                 const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

// The engines count by themselves; a counter follows and never falls.
void follow(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::array<prometheus::Counter*, kOutcomes.size()> requests{};
  prometheus::Counter* tokens_in = nullptr;
  prometheus::Counter* tokens_out = nullptr;
  prometheus::Histogram* queue = nullptr;
  prometheus::Histogram* ttft = nullptr;
  prometheus::Histogram* inter_token = nullptr;
  prometheus::Histogram* refusal = nullptr;
  prometheus::Counter *steps = nullptr, *step_rows = nullptr, *padding_rows = nullptr,
                      *preemptions = nullptr;
  prometheus::Counter* swaps = nullptr;
  std::array<prometheus::Counter*, 2> swap_bytes{};  // out, in
  prometheus::Gauge* swap_used = nullptr;
  std::array<prometheus::Counter*, 2> prefix_tokens{};
  prometheus::Gauge* running = nullptr;
  prometheus::Gauge* waiting = nullptr;
  std::array<prometheus::Gauge*, 3> pages{};
  std::mutex text_mutex;
};

Metrics::Metrics(const std::string& isa, const std::string& version)
    : impl_(std::make_unique<Impl>()) {
  prometheus::Registry& r = impl_->registry;
  auto& requests = prometheus::BuildCounter()
                       .Name("strata_requests_total")
                       .Help("Requests that ended, by how; one for each HTTP request")
                       .Register(r);
  for (size_t i = 0; i < kOutcomes.size(); ++i)
    impl_->requests[i] = &requests.Add({{"outcome", kOutcomes[i]}});
  auto& tokens = prometheus::BuildCounter()
                     .Name("strata_tokens_total")
                     .Help("Tokens of ended requests: in (prompts) and out (generated)")
                     .Register(r);
  impl_->tokens_in = &tokens.Add({{"direction", "in"}});
  impl_->tokens_out = &tokens.Add({{"direction", "out"}});
  const Boundaries waits = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
  impl_->queue =
      &add_histogram(r, "strata_request_queue_seconds", "Time from arrival to admission", waits);
  impl_->ttft = &add_histogram(r, "strata_request_ttft_seconds",
                               "Time from arrival to the first token", waits);
  impl_->inter_token = &add_histogram(
      r, "strata_request_inter_token_seconds", "Time between two tokens of one answer",
      {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5});
  impl_->refusal = &add_histogram(r, "strata_request_refusal_seconds",
                                  "Time from a request read to its 429 or 503 given to the socket",
                                  {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1});
  impl_->running = &add_gauge(r, "strata_requests_running", "Requests admitted and not done");
  impl_->waiting = &add_gauge(r, "strata_requests_waiting", "Requests waiting for admission");
  auto& pages = prometheus::BuildGauge()
                    .Name("strata_kv_pages")
                    .Help("Pages of the KV cache by state")
                    .Register(r);
  const char* const states[] = {"used", "cached", "free"};
  for (size_t i = 0; i < 3; ++i) impl_->pages[i] = &pages.Add({{"state", states[i]}});
  impl_->steps = &add_counter(r, "strata_engine_steps_total", "Passes over the model");
  impl_->step_rows =
      &add_counter(r, "strata_engine_rows_total", "Rows (tokens) of all passes over the model");
  impl_->padding_rows = &add_counter(r, "strata_engine_padding_rows_total",
                                     "Rows among them that static batches are padded with");
  impl_->preemptions = &add_counter(r, "strata_preemptions_total",
                                    "Times that an answer gave up its pages for others");
  impl_->swaps = &add_counter(r, "strata_swap_preemptions_total",
                              "Preemptions that wrote the pages to the swap space; the others are "
                              "computed again");
  auto& swapped = prometheus::BuildCounter()
                      .Name("strata_swap_bytes_total")
                      .Help("Bytes of pages written to the swap space (out) and read back (in)")
                      .Register(r);
  impl_->swap_bytes = {&swapped.Add({{"direction", "out"}}), &swapped.Add({{"direction", "in"}})};
  impl_->swap_used =
      &add_gauge(r, "strata_swap_used_bytes", "Bytes of pages in the swap space now");
  auto& prefix = prometheus::BuildCounter()
                     .Name("strata_prefix_tokens_total")
                     .Help("Tokens of admitted prompts: found (hit) in the cache or not (miss)")
                     .Register(r);
  impl_->prefix_tokens = {&prefix.Add({{"result", "hit"}}), &prefix.Add({{"result", "miss"}})};
  prometheus::BuildGauge()
      .Name("strata_build_info")
      .Help("1, with what is running")
      .Register(r)
      .Add({{"isa", isa}, {"version", version}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::count_request(Outcome outcome) noexcept {
  impl_->requests[static_cast<size_t>(outcome)]->Increment();
}

void Metrics::count_tokens(int64_t in, int64_t out) noexcept {
  if (in > 0) impl_->tokens_in->Increment(static_cast<double>(in));
  if (out > 0) impl_->tokens_out->Increment(static_cast<double>(out));
}

void Metrics::observe_queue(double seconds) noexcept { impl_->queue->Observe(seconds); }
void Metrics::observe_ttft(double seconds) noexcept { impl_->ttft->Observe(seconds); }
void Metrics::observe_inter_token(double seconds) noexcept { impl_->inter_token->Observe(seconds); }
void Metrics::observe_refusal(double seconds) noexcept { impl_->refusal->Observe(seconds); }

std::string Metrics::text(const EngineStats& stats) {
  const std::lock_guard lock(impl_->text_mutex);
  impl_->running->Set(stats.running);
  impl_->waiting->Set(stats.waiting);
  impl_->pages[0]->Set(static_cast<double>(stats.pages_used));
  impl_->pages[1]->Set(static_cast<double>(stats.pages_cached));
  impl_->pages[2]->Set(
      static_cast<double>(stats.pages_total - stats.pages_used - stats.pages_cached));
  follow(*impl_->steps, static_cast<double>(stats.steps));
  follow(*impl_->step_rows, static_cast<double>(stats.step_rows));
  follow(*impl_->padding_rows, static_cast<double>(stats.padding_rows));
  follow(*impl_->preemptions, static_cast<double>(stats.preemptions));
  follow(*impl_->swaps, static_cast<double>(stats.swaps));
  follow(*impl_->swap_bytes[0], static_cast<double>(stats.swap_written_bytes));
  follow(*impl_->swap_bytes[1], static_cast<double>(stats.swap_read_bytes));
  impl_->swap_used->Set(static_cast<double>(stats.swap_used_bytes));
  follow(*impl_->prefix_tokens[0], static_cast<double>(stats.prefix_hit_tokens));
  follow(*impl_->prefix_tokens[1], static_cast<double>(stats.prefix_miss_tokens));
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace strata::server
