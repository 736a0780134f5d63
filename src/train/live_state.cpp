#include "train/live_state.h"

#include <cmath>
#include <utility>

namespace strata {

void LiveState::Curve::add(double step, double value) {
  if (!std::isfinite(value) || ++skipped_ < stride_) return;
  skipped_ = 0;
  points_.emplace_back(step, value);
  if (points_.size() < kMostPoints) return;
  for (size_t i = 1; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

OrderedJson LiveState::Curve::points() const {
  OrderedJson list = OrderedJson::array();
  for (const auto& [step, value] : points_) list.push_back({step, value});
  return list;
}

void LiveState::take_history(const Metrics& metrics) {
  const auto take = [](const Line& line, Curve& curve) {
    for (size_t i = 0; i < line.x.size(); ++i) curve.add(line.x[i], line.y[i]);
  };
  take(metrics.training(), loss_);
  take(metrics.validation(), validation_);
}

OrderedJson LiveState::add_step(const StepReport& r) {
  const auto step = static_cast<double>(r.step);
  loss_.add(step, r.loss);
  validation_.add(step, r.validation_loss);
  learning_rate_.add(step, r.learning_rate);
  gradient_norm_.add(step, r.gradient_norm);
  speed_.add(step, r.tokens_per_second);
  OrderedJson j;
  j["kind"] = "step";
  j["step"] = r.step;
  j["steps"] = r.steps;
  j["loss"] = r.loss;
  if (std::isfinite(r.validation_loss)) j["validation_loss"] = r.validation_loss;
  j["learning_rate"] = r.learning_rate;
  j["gradient_norm"] = r.gradient_norm;
  j["tokens"] = r.tokens;
  j["tokens_per_second"] = r.tokens_per_second;
  j["seconds_left"] = r.seconds_left;
  report_ = j;
  return j;
}

OrderedJson LiveState::add_sample(int64_t step, std::string text) {
  OrderedJson j;
  j["kind"] = "sample";
  j["step"] = step;
  j["text"] = std::move(text);
  samples_.push_back(j);
  if (samples_.size() > kMostSamples) samples_.pop_front();
  return j;
}

OrderedJson LiveState::set_attention(LiveAttention attention) {
  OrderedJson j;
  j["kind"] = "attention";
  j["step"] = attention.step;
  j["tokens"] = std::move(attention.tokens);
  j["heads"] = OrderedJson::array();
  for (LiveAttention::Head& h : attention.heads)
    j["heads"].push_back({{"layer", h.layer}, {"head", h.head}, {"weights", std::move(h.weights)}});
  attention_ = j;
  return j;
}

OrderedJson LiveState::end(std::string how) {
  OrderedJson j;
  j["kind"] = "end";
  j["how"] = std::move(how);
  end_ = j;
  return j;
}

OrderedJson LiveState::whole() const {
  OrderedJson j;
  j["kind"] = "state";
  j["about"] = about_;
  j["curves"] = {{"loss", loss_.points()},
                 {"validation_loss", validation_.points()},
                 {"learning_rate", learning_rate_.points()},
                 {"gradient_norm", gradient_norm_.points()},
                 {"tokens_per_second", speed_.points()}};
  j["report"] = report_;
  j["samples"] = samples_;
  j["attention"] = attention_;
  j["end"] = end_;
  return j;
}

}  // namespace strata
