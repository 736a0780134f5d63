#include "ops/linear.h"

#include <algorithm>

#include "base/cache_size.h"
#include "base/error.h"

namespace strata {
namespace {

// Eighths of the second-level cache that a panel of activations takes; the weights of a strip need
// room too.
constexpr int64_t kPanelEighths = 3;
// Below this many tokens reading a strip again costs more than activations from the third level.
constexpr int64_t kLeastPanel = 48;
// Panels are cut at multiples of this, so that only the last has a tile that is not full: tiles
// have 4 or 5 tokens.
constexpr int64_t kPanelUnit = 20;
// Work (weight bytes x tokens) that is done before another thread has woken up.
constexpr int64_t kSerialWork = 32 << 10;

int64_t row_bytes(const PackedMatrix& weight) {
  return weight.quantised()
             ? weight.in() / ActivationBlock::kElements * int64_t{sizeof(ActivationBlock)}
             : weight.in() * int64_t{sizeof(float)};
}

void check(const LinearPart& part, const LinearInput& input) {
  STRATA_ASSERT(part.weight != nullptr && *part.weight);
  const PackedMatrix& w = *part.weight;
  const bool quantised = w.quantised();
  const int64_t rows = quantised ? input.quantized.rows : input.x.rows;
  const int64_t columns = quantised ? input.quantized.columns : input.x.columns;
  STRATA_ASSERT(quantised ? static_cast<bool>(input.quantized) : input.x.dtype == DType::f32);
  if (columns != w.in())
    fail(ErrorCode::invalid_argument, "linear: x has {} columns, {} is [{}, {}]", columns, w.name(),
         w.out(), w.in());
  STRATA_ASSERT(!quantised || !input.residual ||
                (input.residual.rows == rows && input.residual.columns == columns &&
                 input.residual.stride == input.quantized.stride));
  if (part.y.dtype != DType::f32 || part.y.rows != rows || part.y.columns != w.out())
    fail(ErrorCode::invalid_argument, "linear: y is [{}, {}], x times {} is [{}, {}] (f32)",
         part.y.rows, part.y.columns, w.name(), rows, w.out());
}

// Rows of strips [first, last) for tokens [token, token + tokens).
void multiply(const LinearPart& part, const LinearInput& input, const KernelTable& kernels,
              int64_t first, int64_t last, int64_t token, int64_t tokens) {
  const PackedMatrix& w = *part.weight;
  const int64_t row = first * kStripRows;
  MatmulArgs args;
  args.weights = w.strip(first);
  args.strip_bytes = w.strip_bytes();
  args.in = w.in();
  args.rows = std::min(w.out(), last * kStripRows) - row;
  if (w.quantised()) {
    args.x_stride = input.quantized.stride;
    args.blocks = input.quantized.blocks + token * args.x_stride;
  } else {
    args.x_stride = input.x.stride;
    args.floats = input.x.row<float>(token);
  }
  args.tokens = tokens;
  args.y = part.y.row<float>(token) + row;
  args.y_stride = part.y.stride;
  args.bias = part.bias == nullptr ? nullptr : part.bias + row;
  const MatmulFunction matmul = kernels.matmul->matmul[static_cast<int>(w.type())];
  matmul(args);
  if (!w.quantised() || !input.residual) return;
  args.blocks = input.residual.blocks + token * input.residual.stride;
  args.bias = nullptr;
  args.accumulate = true;
  matmul(args);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The tokens in panels whose activations stay in the second-level cache while the weights pass by,
// all of about the same number of tokens, so that none is a small one.
class Panels {
 public:
  Panels(int64_t tokens, int64_t token_bytes)
      : tokens_(tokens), units_(ceil_div(tokens, kPanelUnit)) {
    static const int64_t panel_bytes = second_level_cache_bytes() / 8 * kPanelEighths;
    count_ = ceil_div(tokens, std::max(kLeastPanel, panel_bytes / token_bytes));
  }
  int64_t count() const { return count_; }
  // The first token of a panel; of count(): all tokens.
  int64_t begin(int64_t panel) const {
    return std::min(tokens_, units_ * panel / count_ * kPanelUnit);
  }

 private:
  int64_t tokens_, units_, count_;
};

}  // namespace

void linear(std::span<const LinearPart> parts, const LinearInput& input, const OpContext& context) {
  if (parts.empty()) return;
  int64_t token_bytes = 0, weight_bytes = 0;
  for (const LinearPart& part : parts) {
    check(part, input);
    token_bytes = std::max(token_bytes, row_bytes(*part.weight));
    weight_bytes += part.weight->bytes();
  }
  const int64_t tokens = parts[0].y.rows;
  if (tokens == 0) return;
  const Panels panels(tokens, token_bytes);

  // The work is a line: panel after panel, in each part after part, strip after strip, a strip as
  // long as its bytes times the panel's tokens. Each thread takes a stretch of equal length, strips
  // going to the thread in whose stretch they begin.
  const int64_t length = weight_bytes * tokens;
  const auto work_on = [&](int64_t begin, int64_t end) {
    int64_t start = 0;
    for (int64_t p = 0; p < panels.count(); ++p) {
      const int64_t token = panels.begin(p), panel = panels.begin(p + 1) - token;
      for (const LinearPart& part : parts) {
        const int64_t unit = part.weight->strip_bytes() * panel, strips = part.weight->strips();
        const int64_t first = std::clamp(ceil_div(begin - start, unit), int64_t{0}, strips);
        const int64_t last = std::clamp(ceil_div(end - start, unit), int64_t{0}, strips);
        if (first < last) multiply(part, input, *context.kernels, first, last, token, panel);
        start += unit * strips;
      }
    }
  };
  if (length < kSerialWork) return work_on(0, length);
  const int threads = context.pool->threads();
  context.pool->run([&](int index) {
    work_on(length / threads * index + std::min<int64_t>(index, length % threads),
            length / threads * (index + 1) + std::min<int64_t>(index + 1, length % threads));
  });
}

void linear(const LinearPart& part, const LinearInput& input, const OpContext& context) {
  linear(std::span(&part, 1), input, context);
}

}  // namespace strata
