#include "cli/train_status.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>

namespace strata::cli {

std::string time_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds);
  if (s >= 3600) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return s >= 60 ? fmt::format("{}m {:02}s", s / 60, s % 60) : fmt::format("{}s", s);
}

StatusLine::StatusLine(bool quiet, double flops_per_token, double peak)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      flops_per_token_(flops_per_token),
      peak_(peak) {}

void StatusLine::show(const StepReport& r) {
  const bool validated = std::isfinite(r.validation_loss);
  if (validated) validation_ = r.validation_loss;
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool due = terminal_ && now - shown_ > std::chrono::milliseconds(250);
  if (!validated && !due && r.step != r.steps) return;
  shown_ = now;
  std::string line = fmt::format("step {}/{}  loss {:.4f}", r.step, r.steps, r.loss);
  if (std::isfinite(validation_))
    line += fmt::format("  val {:.4f}  ppl {:.2f}", validation_, std::exp(validation_));
  line +=
      fmt::format("  lr {:.2e}  |g| {:.3f}  {:.0f} tok/s  {:.0f} % of FMA peak  {} left",
                  r.learning_rate, r.gradient_norm, r.tokens_per_second,
                  100 * r.tokens_per_second * flops_per_token_ / peak_, time_text(r.seconds_left));
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line,
             terminal_ ? (validated ? "\033[K\n" : "\033[K") : "\n");
  open_ = terminal_ && !validated;
}

void StatusLine::end() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace strata::cli
