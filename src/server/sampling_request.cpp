#include "server/sampling_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/utf8.h"
#include "server/api_error.h"
#include "server/field_tables.h"

namespace strata::server {
namespace {

constexpr size_t kMostStops = 16;
constexpr int64_t kMostChoices = 64;
constexpr double kMostSeconds = 86400;
constexpr double kMostPriority = 100;

// 63 bits, so that clients whose integers are signed can send it back.
uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) >> 1;
}

double read_priority(const RequestFields& fields, const Engine& engine, double cap) {
  const Json* value = fields.find("priority");
  double priority = 0;
  if (value != nullptr && value->is_number()) {
    priority = value->get<double>();
    if (!(std::abs(priority) <= kMostPriority))
      throw bad_field("priority", fmt::format("priority: got {}, wanted a number from {} to {}",
                                              priority, -kMostPriority, kMostPriority));
  } else if (value != nullptr) {
    const std::string word = fields.text("priority").value_or("");
    if (word != "low" && word != "normal" && word != "high")
      throw bad_field("priority",
                      fmt::format("priority: got '{}', wanted low, normal, high or a number",
                                  clipped_utf8(word, 40)));
    priority = word == "low" ? -1 : word == "high" ? 1 : 0;
  }
  if (priority != 0 && engine.options().policy != Policy::priority)
    throw bad_field("priority",
                    "priority: this server does not go by priorities (--policy); only normal is "
                    "accepted");
  return std::min(priority, cap);
}

std::optional<KvPolicy> read_kv_policy(const RequestFields& fields, const Engine& engine) {
  const std::optional<std::string> text = fields.text("kv_policy");
  if (!text) return std::nullopt;
  try {
    const KvPolicy policy = parse_kv_policy(*text, "kv_policy");
    engine.check_kv_policy(policy);
    return policy;
  } catch (const Error& e) {
    throw bad_field("kv_policy", e.what());
  }
}

std::vector<std::string> read_stops(const RequestFields& fields) {
  std::vector<std::string> stops = fields.texts("stop");
  if (stops.size() > kMostStops)
    throw bad_field("stop", fmt::format("stop: {} strings, at most {}", stops.size(), kMostStops));
  for (const std::string& stop : stops)
    if (stop.empty()) throw bad_field("stop", "stop: an empty string would end every answer");
  return stops;
}

std::vector<std::pair<TokenId, double>> read_logit_bias(const RequestFields& fields,
                                                        const Engine& engine) {
  std::vector<std::pair<TokenId, double>> biases;
  const Json* object = fields.find("logit_bias");
  if (object == nullptr) return biases;
  if (!object->is_object())
    throw bad_field("logit_bias", "logit_bias: wanted an object from token ids to numbers");
  const int64_t vocabulary = engine.model().config.vocabulary_size;
  for (const auto& [key, value] : object->items()) {
    const bool digits =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(key) >= vocabulary)
      throw bad_field("logit_bias", fmt::format("logit_bias: '{}' is no token id below {}",
                                                clipped_utf8(key, 40), vocabulary));
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100))
      throw bad_field(
          "logit_bias",
          fmt::format("logit_bias: the bias of token {} is no number from -100 to 100", key));
    biases.emplace_back(static_cast<TokenId>(std::stoll(key)), value.get<double>());
  }
  return biases;
}

void read_stream_options(const RequestFields& fields, GenerationAsk& ask) {
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!ask.stream)
    throw bad_field("stream_options", "stream_options is only allowed with \"stream\": true");
  try {
    const RequestFields inner(*options, stream_option_fields(), false);
    ask.include_usage = inner.boolean("include_usage").value_or(false);
    ask.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  } catch (const ApiError& e) {
    throw bad_field("stream_options", fmt::format("stream_options: {}", e.what()));
  }
}

}  // namespace

void read_scheduling(const RequestFields& fields, const Engine& engine, const Caller& caller,
                     GenerationRequest& request) {
  request.key = caller.key;
  request.priority = read_priority(fields, engine, caller.priority_cap);
  request.timeout_seconds = fields.number("timeout", 0, kMostSeconds).value_or(0);
  if (fields.has("timeout") && request.timeout_seconds == 0)
    throw bad_field("timeout", "timeout: got 0, wanted more than 0 seconds");
}

GenerationAsk read_generation(const RequestFields& fields, const Engine& engine,
                              const Caller& caller) {
  const GenerationDefaults& defaults = engine.defaults();
  GenerationAsk ask;
  GenerationRequest& request = ask.base;
  SamplingParams& s = request.sampling;
  s.temperature = fields.number("temperature", 0, 100).value_or(defaults.temperature.value_or(1));
  s.top_p = fields.number("top_p", 0, 1).value_or(defaults.top_p.value_or(1));
  s.min_p = fields.number("min_p", 0, 1).value_or(defaults.min_p.value_or(0));
  const int64_t top_k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max())
                            .value_or(defaults.top_k.value_or(0));
  s.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  s.typical_p = fields.number("typical_p", 0, 1).value_or(1);
  s.repetition_penalty =
      fields.number("repetition_penalty", 0, 100).value_or(defaults.repetition_penalty.value_or(1));
  if (s.repetition_penalty == 0)
    throw bad_field("repetition_penalty", "repetition_penalty: got 0, wanted more than 0");
  s.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  s.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  s.logit_bias = read_logit_bias(fields, engine);
  s.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max());
  ask.seed_given = seed.has_value();
  s.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();

  request.max_tokens = fields.integer("max_tokens", 0, std::numeric_limits<int64_t>::max());
  request.choices = static_cast<int>(fields.integer("n", 1, kMostChoices).value_or(1));
  request.stop = read_stops(fields);
  request.kv_policy = read_kv_policy(fields, engine);
  read_scheduling(fields, engine, caller, request);
  ask.stream = fields.boolean("stream").value_or(false);
  ask.timings = fields.boolean("timings").value_or(false);
  read_stream_options(fields, ask);
  // Labels are checked for their type, so that a typing mistake is seen.
  for (const char* label : {"user", "safety_identifier", "prompt_cache_key"}) fields.text(label);
  if (const Json* metadata = fields.find("metadata"); metadata != nullptr && !metadata->is_object())
    throw bad_field("metadata", "metadata: wanted an object");
  return ask;
}

}  // namespace strata::server
