#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace strata {
namespace {

// Pulls coefficients that the samples say nothing of towards 0; far below what any sample weighs.
constexpr double kRidge = 1e-9;

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

// Solves a x = b for a symmetric positive definite matrix, with pivots.
Vector solve(Matrix a, Vector b) {
  for (size_t column = 0; column < 3; ++column) {
    size_t pivot = column;
    for (size_t r = column + 1; r < 3; ++r)
      if (std::abs(a[r][column]) > std::abs(a[pivot][column])) pivot = r;
    std::swap(a[column], a[pivot]);
    std::swap(b[column], b[pivot]);
    for (size_t r = column + 1; r < 3; ++r) {
      const double factor = a[r][column] / a[column][column];
      for (size_t c = column; c < 3; ++c) a[r][c] -= factor * a[column][c];
      b[r] -= factor * b[column];
    }
  }
  Vector x{};
  for (size_t i = 3; i-- > 0;) {
    x[i] = b[i];
    for (size_t c = i + 1; c < 3; ++c) x[i] -= a[i][c] * x[c];
    x[i] /= a[i][i];
  }
  return x;
}

}  // namespace

void StepCost::learn(const StepWork& work, bool reads_prompt, double seconds) {
  if (!(seconds > 0)) return;
  Ring& ring = reads_prompt ? prompt_steps_ : decode_steps_;
  ring.samples[ring.seen++ % kSteps] = {work, seconds};
  // Decode steps alone change little from one to the next.
  if (!reads_prompt && ring.seen % kLeastSteps != 0) return;
  fit();
  slowest_ = slowest();
}

double StepCost::slowest() const {
  double most = 1;
  for (size_t i = 0; i < std::min(prompt_steps_.seen, kSteps); ++i) {
    const Sample& s = prompt_steps_.samples[i];
    most = std::max(most, s.seconds / predict(s.work));
  }
  return std::min(kBeyondSlowest * most, kMostSlow);
}

void StepCost::fit() {
  // Columns are scaled to their largest value, so that one ridge suits all of them.
  Vector scale{1, 1, 1};
  const auto each = [&](auto use) {
    for (const Ring* ring : {&prompt_steps_, &decode_steps_})
      for (size_t i = 0; i < std::min(ring->seen, kSteps); ++i) use(ring->samples[i]);
  };
  each([&](const Sample& s) {
    scale[1] = std::max(scale[1], s.work.rows);
    scale[2] = std::max(scale[2], s.work.pairs);
  });
  std::array<bool, 3> used{true, true, true};
  // Dropping the most negative coefficient and fitting again is exact enough for three of them.
  for (int round = 0; round < 3; ++round) {
    Matrix a{};
    Vector b{};
    each([&](const Sample& s) {
      const Vector x{1 / s.seconds, s.work.rows / scale[1] / s.seconds,
                     s.work.pairs / scale[2] / s.seconds};
      for (size_t r = 0; r < 3; ++r) {
        if (!used[r]) continue;
        for (size_t c = 0; c < 3; ++c)
          if (used[c]) a[r][c] += x[r] * x[c];
        b[r] += x[r];
      }
    });
    for (size_t r = 0; r < 3; ++r) a[r][r] = used[r] && a[r][r] > 0 ? a[r][r] * (1 + kRidge) : 1;
    const Vector x = solve(a, b);
    const size_t least = static_cast<size_t>(std::min_element(x.begin(), x.end()) - x.begin());
    for (size_t i = 0; i < 3; ++i)
      coefficients_[i] = std::isfinite(x[i]) ? std::max(0.0, x[i]) / scale[i] : 0;
    if (!(x[least] < 0)) return;
    used[least] = false;
  }
}

double StepCost::predict(const StepWork& work) const {
  return coefficients_[0] + coefficients_[1] * work.rows + coefficients_[2] * work.pairs;
}

int64_t StepCost::rows_within(double seconds, const StepWork& work, int64_t position,
                              int64_t most) const {
  int64_t low = 0, high = most;
  while (low < high) {
    const int64_t rows = low + (high - low + 1) / 2;
    StepWork with = work;
    with.add(rows, position);
    if (predict(with) * slowest_ <= seconds)
      low = rows;
    else
      high = rows - 1;
  }
  return low;
}

}  // namespace strata
