#include "server/engine_steps.h"

#include <charconv>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "base/json.h"
#include "base/process.h"
#include "engine/engine.h"
#include "server/api_error.h"

namespace strata::server {
namespace {

constexpr size_t kMostSteps = 500;
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPath = "/engine/steps/";

const char* kind_name(StepRecord::Kind kind) {
  switch (kind) {
    case StepRecord::Kind::prompt:
      return "prompt";
    case StepRecord::Kind::token:
      return "token";
    case StepRecord::Kind::preempted:
      return "preempted";
    case StepRecord::Kind::swapped:
      return "swapped";
  }
  return "";
}

OrderedJson json_of_now(const Engine& engine) {
  const EngineStats stats = engine.stats();
  OrderedJson now;
  now["time_s"] = engine.steps().seconds();
  now["cpu_seconds"] = process_cpu_seconds();
  now["cores"] = usable_threads();
  now["running"] = stats.running;
  now["waiting"] = stats.waiting;
  now["pages"] = {
      {"total", stats.pages_total}, {"used", stats.pages_used}, {"cached", stats.pages_cached}};
  now["preemptions"] = stats.preemptions;
  now["swaps"] = stats.swaps;
  now["swapped_bytes"] = stats.swap_used_bytes;
  return now;
}

OrderedJson json_of_step(const LoggedStep& step) {
  const StepRecord& r = step.record;
  OrderedJson out;
  out["number"] = r.number;
  out["begin_s"] = r.begin_seconds;
  out["seconds"] = r.seconds;
  out["cpu_seconds"] = r.cpu_seconds;
  out["running"] = r.running;
  out["waiting"] = r.waiting;
  out["padding_rows"] = r.padding_rows;
  out["held_bytes"] = r.held_bytes;
  out["cached_bytes"] = r.cached_bytes;
  out["needed_bytes"] = r.needed_bytes;
  out["wasted_bytes"] = r.wasted_bytes;
  out["contiguous_bytes"] = r.contiguous_bytes;
  out["swapped_bytes"] = r.swapped_bytes;
  out["parts"] = OrderedJson::array();
  for (const StepRecord::Part& part : step.parts)
    out["parts"].push_back({part.request, part.choice, part.rows, kind_name(part.kind)});
  return out;
}

}  // namespace

void engine_steps(Context& context) {
  const std::string rest = context.request().path.substr(kPath.size());
  const size_t slash = rest.rfind('/');
  uint64_t number = 0;
  const char* const end = rest.data() + rest.size();
  const char* const begin = slash == std::string::npos ? end : rest.data() + slash + 1;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end)
    throw ApiError(404, "not_found_error", "wanted /engine/steps/MODEL/NUMBER", "not_found");
  const ServedModel model = find_model(context.state, rest.substr(0, slash));
  OrderedJson out;
  out["last"] = model.engine->steps().last();
  out["now"] = json_of_now(*model.engine);
  out["steps"] = OrderedJson::array();
  for (const LoggedStep& step : model.engine->steps().since(number, kMostSteps))
    out["steps"].push_back(json_of_step(step));
  answer(context, 200, kJson, to_json_text(out));
}

}  // namespace strata::server
