#include "train/metrics.h"

#include <cmath>
#include <span>

#include "base/error.h"
#include "ops/adamw.h"

namespace strata {

Metrics::Metrics(const std::filesystem::path& out, int64_t last_step)
    : out_(out),
      file_(out_ / "metrics.jsonl", last_step, [this](const Json& line) { take(line); }),
      norms_(out_ / "norms.jsonl", last_step) {}

void Metrics::take(const Json& line) {
  const auto step = line.at("step").get<double>();
  const auto put = [&](Line& to, const char* key) {
    const auto it = line.find(key);
    if (it != line.end() && it->is_number()) to.add(step, it->get<double>());
  };
  put(training_, "loss");
  put(validation_, "validation_loss");
}

void Metrics::add(const StepReport& r) {
  const bool validated = std::isfinite(r.validation_loss);
  if (!validated && r.step % kEvery != 0 && r.step != r.steps && r.step != 1) return;
  OrderedJson j;
  j["step"] = r.step;
  if (validated) {
    j["validation_loss"] = r.validation_loss;
    j["perplexity"] = std::exp(r.validation_loss);
  } else {
    j["loss"] = r.loss;
    j["learning_rate"] = r.learning_rate;
    j["gradient_norm"] = r.gradient_norm;
    j["tokens_per_second"] = r.tokens_per_second;
  }
  j["tokens"] = r.tokens;
  take(Json(j));
  file_.add(j);
}

void Metrics::add_norms(int64_t step, const ParameterTable& parameters, const OpContext& context) {
  const auto norm = [&](const float* x, int64_t n) {
    const std::span<const float> values(x, static_cast<size_t>(n));
    return std::sqrt(sum_of_squares(std::span(&values, 1), context));
  };
  OrderedJson j;
  j["step"] = step;
  OrderedJson& tensors = j["tensors"] = OrderedJson::object();
  for (const Parameter& p : parameters.all()) {
    OrderedJson& norms = tensors[p.name];
    norms["weight"] = norm(p.value, p.size());
    if (p.trainable()) norms["gradient"] = norm(p.gradient, p.size());
  }
  norms_.add(j);
}

void Metrics::draw(const std::string& title) const {
  LineChart chart;
  chart.title = title;
  chart.subtitle = validation_.y.empty() ? ""
                                         : fmt::format("validation loss {:.4f} after {} steps",
                                                       validation_.y.back(), validation_.x.back());
  chart.x_label = "steps";
  chart.y_label = "nats per token";
  chart.lines = {training_, validation_};
  write_line_chart(chart, out_ / "loss_curve.png");
}

}  // namespace strata
