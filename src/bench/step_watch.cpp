#include "bench/step_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"
#include "net/http_client.h"
#include "report/line_chart.h"
#include "report/span_chart.h"

namespace strata {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr size_t kMostRows = 200;  // of the timeline
constexpr double kMiB = 1 << 20;
constexpr double kCoreSeconds = 0.5;

WatchedStep step_of(const Json& json) {
  WatchedStep step;
  step.begin = json.at("begin_s").get<double>();
  step.seconds = json.at("seconds").get<double>();
  step.cpu_seconds = json.at("cpu_seconds").get<double>();
  step.running = json.at("running").get<int>();
  step.waiting = json.at("waiting").get<int>();
  step.wasted_bytes = json.at("wasted_bytes").get<int64_t>();
  step.padding_rows = json.at("padding_rows").get<int64_t>();
  step.held_bytes = json.at("held_bytes").get<int64_t>();
  step.cached_bytes = json.at("cached_bytes").get<int64_t>();
  step.needed_bytes = json.at("needed_bytes").get<int64_t>();
  step.contiguous_bytes = json.at("contiguous_bytes").get<int64_t>();
  for (const Json& part : json.at("parts"))
    step.parts.push_back({part.at(0).get<uint64_t>(), part.at(1).get<int>(),
                          part.at(2).get<int64_t>(), part.at(3).get<std::string>()});
  return step;
}

// Means over at least kCoreSeconds: a step alone is too short for the system's clock of CPU time.
void add_busy_cores(Line& line, const std::vector<WatchedStep>& steps) {
  const WatchedStep* from = &steps.front();
  for (const WatchedStep& s : steps) {
    const double passed = s.begin + s.seconds - from->begin - from->seconds;
    if (passed < kCoreSeconds) continue;
    line.add(s.begin + s.seconds - steps.front().begin,
             (s.cpu_seconds - from->cpu_seconds) / passed);
    from = &s;
  }
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  ReplaceFile file(path);
  file.write(std::string_view(text));
  file.commit();
}

}  // namespace

StepWatcher::StepWatcher(const ServeClientOptions& options)
    : thread_([this, options] { watch(options); }) {
  begun_.acquire();  // the load's first steps are seen, too
}

StepWatcher::~StepWatcher() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<WatchedStep> StepWatcher::finish() {
  stopping_ = true;
  thread_.join();
  return std::move(steps_);
}

// What the server cannot say, or says differently, is left out: the load itself is what counts.
void StepWatcher::watch(ServeClientOptions options) {
  try {
    net::ClientOptions client = net::parse_base_url(options.url);
    net::HttpClient http(client);
    net::Headers headers;
    if (!options.api_key.empty())
      headers.emplace_back("Authorization", "Bearer " + options.api_key);
    const std::string path = "/engine/steps/" + options.model + "/";
    const auto ask = [&](uint64_t number) {
      const net::ClientResponse response = http.get(path + std::to_string(number), headers);
      if (response.status != 200)
        fail(ErrorCode::not_found, "{} is answered with {}", path, response.status);
      return parse_json(response.body);
    };
    uint64_t number = ask(UINT64_MAX).at("last").get<uint64_t>();
    begun_.release();
    for (bool last = false; !last;) {
      last = stopping_;  // one more look after the end
      for (bool more = true; more;) {
        const Json answer = ask(number);
        const Json& steps = answer.at("steps");
        for (const Json& step : steps) {
          steps_.push_back(step_of(step));
          number = step.at("number").get<uint64_t>();
        }
        more = !steps.empty() && number < answer.at("last").get<uint64_t>();
      }
      if (!last) std::this_thread::sleep_for(kEvery);
    }
  } catch (const std::exception&) {
    steps_.clear();
    begun_.release();  // if that is where it failed; nobody waits for a second one
  }
}

double wasted_share(const std::vector<WatchedStep>& steps) {
  double held = 0, wasted = 0;
  for (const WatchedStep& s : steps) {
    held += static_cast<double>(s.held_bytes) * s.seconds;
    wasted += static_cast<double>(s.wasted_bytes) * s.seconds;
  }
  return wasted / held;
}

void write_step_report(const std::filesystem::path& folder, const std::vector<WatchedStep>& steps) {
  if (steps.empty()) return;
  const double start = steps.front().begin;
  std::string csv =
      "begin_s,seconds,cpu_seconds,running,waiting,requests,prompt_rows,token_rows,preempted,"
      "swapped,"
      "padding_rows,held_bytes,cached_bytes,needed_bytes,wasted_bytes,contiguous_bytes\n";
  SpanChart timeline;
  timeline.title = "What each step computed";
  timeline.x_label = "seconds";
  timeline.y_label = "answer";
  timeline.kinds = {"prompt read", "token generated", "preempted", "preempted, swapped"};
  LineChart memory;
  memory.title = "Keys and values in memory";
  memory.x_label = "seconds";
  memory.y_label = "MiB";
  memory.y_from_zero = true;
  memory.lines = {{"held", {}, {}},
                  {"needed by what was read", {}, {}},
                  {"contiguous allocation", {}, {}},
                  {"prefix cache", {}, {}}};
  LineChart load;
  load.title = "Requests and cores";
  load.x_label = "seconds";
  load.y_label = "requests; cores";
  load.y_from_zero = true;
  load.lines = {{"running", {}, {}}, {"waiting", {}, {}}, {"cores busy", {}, {}}};
  std::map<std::pair<uint64_t, int>, size_t> rows;
  double needed = 0, contiguous = 0;
  for (const WatchedStep& s : steps) {
    int64_t of_prompts = 0, of_tokens = 0, preempted = 0, swapped = 0;
    const double begin = s.begin - start;
    for (const WatchedStep::Part& part : s.parts) {
      const size_t kind = part.kind == "prompt"      ? 0
                          : part.kind == "token"     ? 1
                          : part.kind == "preempted" ? 2
                                                     : 3;
      (kind == 0 ? of_prompts : of_tokens) += part.rows;
      preempted += kind == 2;
      swapped += kind == 3;
      const size_t row = rows.try_emplace({part.request, part.choice}, rows.size()).first->second;
      if (row < kMostRows) timeline.spans.push_back({row, kind, begin, begin + s.seconds});
    }
    csv += fmt::format("{:.6f},{:.6f},{:.6f},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", begin,
                       s.seconds, s.cpu_seconds, s.running, s.waiting, s.parts.size(), of_prompts,
                       of_tokens, preempted, swapped, s.padding_rows, s.held_bytes, s.cached_bytes,
                       s.needed_bytes, s.wasted_bytes, s.contiguous_bytes);
    load.lines[0].add(begin, s.running);
    load.lines[1].add(begin, s.waiting);
    const int64_t values[] = {s.held_bytes, s.needed_bytes, s.contiguous_bytes, s.cached_bytes};
    for (size_t i = 0; i < 4; ++i)
      memory.lines[i].add(begin, static_cast<double>(values[i]) / kMiB);
    needed += static_cast<double>(s.needed_bytes) * s.seconds;
    contiguous += static_cast<double>(s.contiguous_bytes) * s.seconds;
  }
  // Preemptions are rare and short: they lie on top.
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(),
                   [](const ChartSpan& a, const ChartSpan& b) { return a.kind < b.kind; });
  timeline.rows = std::min(rows.size(), kMostRows);
  timeline.subtitle = fmt::format("{} steps, {} answers{}", steps.size(), rows.size(),
                                  rows.size() > kMostRows ? ", the first 200 shown" : "");
  memory.subtitle = fmt::format(
      "over time: {:.2f} % of what is held is wasted (empty ends of pages, copies, reservations); "
      "contiguous allocation would waste {:.1f} %",
      100 * std::max(0.0, wasted_share(steps)),
      contiguous > 0 ? 100 * std::max(0.0, 1 - needed / contiguous) : 0.0);
  add_busy_cores(load.lines[2], steps);
  write_text(folder / "engine_steps.csv", csv);
  write_span_chart(timeline, folder / "batch_timeline.png");
  write_line_chart(memory, folder / "memory_efficiency.png");
  write_line_chart(load, folder / "engine_load.png");
}

}  // namespace strata
