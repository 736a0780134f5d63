#pragma once

#include <chrono>
#include <limits>
#include <string>

#include "train/metrics.h"

namespace strata::cli {

// "1h 05m", "2m 03s", "7s".
std::string time_text(double seconds);

// What training has come to, one line on stderr: rewritten on a terminal, else one per validation.
class StatusLine {
 public:
  // peak: operations a second that the machine can do.
  StatusLine(bool quiet, double flops_per_token, double peak);
  ~StatusLine() { end(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const StepReport& r);
  // Leaves the line so that others can print.
  void end();

 private:
  bool quiet_, terminal_;
  double flops_per_token_, peak_;
  double validation_ = std::numeric_limits<double>::quiet_NaN();
  bool open_ = false;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace strata::cli
