#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/kernel_table.h"
#include "ops/adamw.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TrainPassOptions pass_options(const TrainConfig& c) {
  TrainPassOptions o;
  o.dropout = static_cast<float>(c.dropout);
  o.seed = static_cast<uint64_t>(c.seed);
  o.recompute = c.recompute == "blocks" ? Recompute::blocks : Recompute::cheap;
  return o;
}

bool all_finite(const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(x[i])) return false;
  return true;
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, TokenData data, const Tokenizer& tokenizer,
                 std::string tokenizer_json)
    : options_(options),
      data_(std::move(data)),
      tokenizer_json_(std::move(tokenizer_json)),
      pool_(options.threads),
      context_{&kernel_table(isa_level()), &pool_} {
  state_.config = options_.config;
  state_.vocabulary = tokenizer.vocabulary_size();
  std::optional<std::filesystem::path> checkpoint;
  if (!options_.out.empty()) checkpoint = open_run_folder(options_.out, options_.resume);
  if (checkpoint) {
    state_ = read_train_state(*checkpoint);
    state_.config = options_.config;
    if (state_.vocabulary != tokenizer.vocabulary_size())
      fail(ErrorCode::data_corrupt, "train: {}: has {} tokens, the tokenizer {}",
           checkpoint->string(), state_.vocabulary, tokenizer.vocabulary_size());
  }
  const TrainConfig& c = state_.config;
  gpt_ = gpt_config(c, state_.vocabulary);
  model_ = make_gpt(gpt_, static_cast<uint64_t>(c.seed));
  parameters_ = std::make_unique<ParameterTable>(
      *model_, [this](const WeightRef& w) { return is_trainable(gpt_, w); },
      c.dtype == "bf16" ? DType::bf16 : DType::f32);
  pass_ = std::make_unique<TrainPass>(model_->transformer, *parameters_, c.context, pass_options(c),
                                      context_);
  optimizer_ = std::make_unique<Optimizer>(*parameters_, optimizer_options(c), context_);
  if (c.ema > 0) average_ = std::make_unique<WeightAverage>(*parameters_, c.ema, context_);
  if (checkpoint) {
    read_weights(*checkpoint, *parameters_, average_.get());
    parameters_->round_operands(pool_);
    read_optimizer_state(*checkpoint, *optimizer_);
  }
  if (!options_.out.empty()) metrics_ = std::make_unique<Metrics>(options_.out, state_.step);
}

TrainCost Trainer::cost() {
  const TrainConfig& c = state_.config;
  TrainCost cost;
  int64_t multiplied = 0;
  for (const Parameter& p : parameters_->all()) {
    cost.parameters += p.size();
    if (p.trainable()) cost.trainable += p.size();
    if (p.name != "position_embd.weight") multiplied += p.size();
  }
  cost.tokens_per_step = c.batch * c.accumulation * c.context;
  cost.flops_per_token = 6 * static_cast<double>(multiplied);
  cost.parameter_bytes = cost.parameters * 4;
  cost.gradient_bytes = cost.trainable * 4;
  cost.optimizer_bytes = static_cast<int64_t>(optimizer_->held_bytes());
  cost.average_bytes = average_ == nullptr ? 0 : static_cast<int64_t>(average_->held_bytes());
  cost.rounded_bytes = static_cast<int64_t>(parameters_->rounded_bytes());
  cost.activation_bytes = pass_->activation_bytes(c.batch * c.context, true);
  return cost;
}

void Trainer::fail_not_finite(double loss) const {
  std::string tensor;
  for (const Parameter& p : parameters_->all()) {
    if (tensor.empty() && !all_finite(p.value, p.size())) tensor = p.name;
    if (tensor.empty() && p.trainable() && !all_finite(p.gradient, p.size()))
      tensor = "the gradient of " + p.name;
  }
  const auto checkpoint = options_.out.empty() ? std::nullopt : latest_checkpoint(options_.out);
  fail(ErrorCode::internal,
       "train: step {}: the loss is {}, and {} is not finite; {} Try a smaller lr, a longer "
       "warmup or clip",
       state_.step + 1, loss, tensor.empty() ? "no tensor" : tensor,
       checkpoint ? fmt::format("the last good checkpoint is {}.", checkpoint->string())
                  : "there is no checkpoint yet.");
}

Trainer::StepResult Trainer::step() {
  const TrainConfig& c = state_.config;
  const auto seed = static_cast<uint64_t>(c.seed);
  const int64_t tokens = c.batch * c.accumulation * c.context;
  parameters_->zero_gradients();
  StepResult result;
  for (int64_t i = 0; i < c.accumulation; ++i) {
    const int64_t micro_batch = state_.step * c.accumulation + i;
    draw_windows(data_.train, c.context, c.batch, seed, micro_batch, batch_);
    PassInput input{batch_.batch(), batch_.targets()};
    input.factor = 1.0f / static_cast<float>(tokens);
    input.smoothing = static_cast<float>(c.smoothing);
    input.step = static_cast<uint32_t>(micro_batch);
    result.loss += pass_->forward_backward(input).sum / static_cast<double>(tokens);
  }
  const std::span<const float> gradients = parameters_->gradients();
  result.gradient_norm = std::sqrt(sum_of_squares(std::span(&gradients, 1), context_));
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
    fail_not_finite(result.loss);
  result.learning_rate = learning_rate(schedule_of(c), state_.step);
  optimizer_->step(state_.step + 1, result.learning_rate,
                   clip_factor(result.gradient_norm, c.clip));
  ++state_.step;
  if (average_ != nullptr) average_->add(state_.step);
  state_.tokens += tokens;
  return result;
}

double Trainer::step_once() { return step().loss; }

double Trainer::mean_loss(const std::function<bool(TokenBatch&)>& next) {
  const WeightAverage::InUse averaged(average_.get());
  CrossEntropyLoss total;
  for (batch_.clear(); next(batch_); batch_.clear()) {
    const CrossEntropyLoss part = pass_->forward({batch_.batch(), batch_.targets()});
    total.sum += part.sum;
    total.tokens += part.tokens;
  }
  return total.sum / static_cast<double>(total.tokens);
}

double Trainer::validate() {
  const TrainConfig& c = state_.config;
  const int64_t windows = whole_windows(data_.validation, c.context);
  int64_t at = 0;
  return mean_loss([&](TokenBatch& batch) {
    for (int64_t i = 0; i < c.batch && at < windows; ++i)
      add_whole_window(data_.validation, c.context, at++, batch);
    return batch.size() > 0;
  });
}

double Trainer::validate_random_windows() {
  const TrainConfig& c = state_.config;
  const int64_t windows = whole_windows(data_.validation, c.context);
  if (data_.validation.size() <= c.context) return validate();
  int64_t at = 0;
  return mean_loss([&](TokenBatch& batch) {
    if (at * c.batch >= windows) return false;
    // A seed of its own, so that it draws other places than training does.
    draw_windows(data_.validation, c.context, c.batch, static_cast<uint64_t>(c.seed) + 1, at++,
                 batch);
    return true;
  });
}

void Trainer::save() {
  if (options_.out.empty()) return;
  data_.check_intact();
  save_checkpoint(options_.out,
                  {state_, gpt_, *parameters_, *optimizer_, average_.get(), tokenizer_json_},
                  options_.keep);
  metrics_->draw(
      fmt::format("{} parameters, {} tokens a step", cost().parameters, cost().tokens_per_step));
}

void Trainer::report_and_save(const StepResult& result, double seconds, int64_t steps_run) {
  const TrainConfig& c = state_.config;
  const bool last = state_.step == c.steps;
  StepReport report;
  report.step = state_.step;
  report.steps = c.steps;
  report.loss = result.loss;
  report.learning_rate = result.learning_rate;
  report.gradient_norm = result.gradient_norm;
  report.tokens = state_.tokens;
  report.tokens_per_second =
      static_cast<double>(steps_run * c.batch * c.accumulation * c.context) / seconds;
  report.seconds_left =
      seconds / static_cast<double>(steps_run) * static_cast<double>(c.steps - state_.step);
  if (metrics_ != nullptr) metrics_->add(report);
  const bool validation = (state_.step % c.eval_every == 0 || last) && !data_.validation.empty();
  bool best = false;
  if (validation) {
    report.validation_loss = validate();
    best = take_validation(report.validation_loss);
    if (metrics_ != nullptr) metrics_->add(report);
  }
  const int64_t norms_every = c.norms_every > 0 ? c.norms_every : c.eval_every;
  if (metrics_ != nullptr && (state_.step % norms_every == 0 || last))
    metrics_->add_norms(state_.step, *parameters_, context_);
  if (options_.on_step) options_.on_step(report);
  const bool sample = last || (c.sample_every > 0 && state_.step % c.sample_every == 0);
  {
    const bool draws = options_.draw && validation, samples = options_.sample && sample;
    const WeightAverage::InUse averaged(average_.get());
    std::optional<ParameterTable::AsComputed> computed;
    if (draws || samples) computed.emplace(*parameters_);
    if (draws) options_.draw(*model_);
    if (samples) {
      const std::string text = options_.sample(*model_);
      if (!options_.out.empty()) {
        std::ofstream file(options_.out / "samples.txt", std::ios::app);
        file << "=== step " << state_.step << "\n" << text << "\n";
      }
    }
  }
  const int64_t every = c.save_every > 0 ? c.save_every : c.eval_every;
  const bool kept_as_best = best && c.early_stop > 0;
  if (state_.step % every == 0 || last || kept_as_best || nothing_improves()) save();
}

bool Trainer::take_validation(double loss) {
  state_.validation_loss = loss;
  if (!std::isfinite(loss) || (state_.best_step > 0 && loss >= state_.best_loss)) {
    ++state_.validations_since_best;
    return false;
  }
  state_.best_loss = loss;
  state_.best_step = state_.step;
  state_.validations_since_best = 0;
  return true;
}

bool Trainer::nothing_improves() const {
  const int64_t limit = state_.config.early_stop;
  return limit > 0 && state_.validations_since_best >= limit;
}

void Trainer::publish_best() {
  if (state_.config.early_stop > 0 && state_.best_step > 0 && !options_.out.empty())
    publish_checkpoint(options_.out, state_.best_step);
}

TrainEnd Trainer::run() {
  const TrainConfig& c = state_.config;
  const Clock::time_point begin = Clock::now();
  const double seconds_before = state_.seconds;
  double training_seconds = 0;
  for (int64_t steps_run = 0; state_.step < c.steps && !nothing_improves();) {
    const Clock::time_point step_begin = Clock::now();
    const StepResult result = step();
    training_seconds += seconds_since(step_begin);
    state_.seconds = seconds_before + seconds_since(begin);
    report_and_save(result, training_seconds, ++steps_run);
    const bool stopped = options_.stop && options_.stop();
    const bool late = options_.max_minutes > 0 && seconds_since(begin) >= 60 * options_.max_minutes;
    if (state_.step < c.steps && !nothing_improves() && (stopped || late)) {
      save();
      return stopped ? TrainEnd::stopped : TrainEnd::time_is_up;
    }
  }
  publish_best();
  return nothing_improves() ? TrainEnd::no_improvement : TrainEnd::done;
}

}  // namespace strata
