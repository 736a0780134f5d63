#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "base/replace_file.h"

namespace strata {

Metrics::Metrics(const std::filesystem::path& out, int64_t last_step) : out_(out) {
  const std::filesystem::path path = out_ / "metrics.jsonl";
  std::string kept;
  if (last_step > 0) {
    std::ifstream old(path);
    for (std::string line; std::getline(old, line);) {
      try {
        // A killed process may have left half a line.
        if (parse_json(line).at("step").get<int64_t>() > last_step) continue;
      } catch (const std::exception&) {
        continue;
      }
      take(line);
      kept += line + "\n";
    }
  }
  ReplaceFile file(path);
  file.write(kept);
  file.commit();
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr)
    fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", path.string(),
         std::strerror(errno));
}

Metrics::~Metrics() { std::fclose(file_); }

void Metrics::take(const std::string& line) {
  const Json j = parse_json(line);
  const auto step = j.at("step").get<double>();
  const auto put = [&](Line& to, const char* key) {
    if (!j.contains(key)) return;
    to.x.push_back(step);
    to.y.push_back(j.at(key).get<double>());
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
  const std::string line = to_json_text(j);
  take(line);
  if (std::fprintf(file_, "%s\n", line.c_str()) < 0 || std::fflush(file_) != 0)
    fail(ErrorCode::resource_exhausted, "{}: cannot write: {}", (out_ / "metrics.jsonl").string(),
         std::strerror(errno));
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
