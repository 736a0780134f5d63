#include "bench/gemm.h"

#include <algorithm>
#include <chrono>

#include "numeric/half.h"
#include "ops/linear.h"
#include "tensor/arena.h"

namespace strata {
namespace {

// More than any last-level cache of the machines we know holds.
constexpr int64_t kColdBytes = int64_t{384} << 20;
constexpr double kSecondsPerRepeat = 0.03;

// The order of magnitude of trained weights; speed depends on the values only
// through NaN and denormals, which this has none of.
std::vector<std::byte> random_rows(const GemmCase& c) {
  const TensorTypeInfo& info = tensor_type_info(c.type);
  std::vector<std::byte> bytes(
      static_cast<size_t>(c.out * (c.in / info.block_elements) * info.block_bytes));
  uint64_t state = 1;
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // 0x20..0x2f: as the upper byte of an f16 or f32 it is a small positive
    // number, as codes it varies enough.
    b = static_cast<std::byte>(0x20 | (state >> 60));
  }
  return bytes;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<GemmCase> default_gemm_cases() {
  struct Shape {
    const char* model;
    TensorType type;
    int64_t out, in;
  };
  const Shape shapes[] = {
      {"smollm2-135m qkv", TensorType::q4_1, 960, 576},
      {"smollm2-135m o", TensorType::q4_1, 576, 576},
      {"smollm2-135m gate+up", TensorType::q4_1, 3072, 576},
      {"smollm2-135m down", TensorType::q4_1, 576, 1536},
      {"smollm2-135m head", TensorType::q4_1, 49152, 576},
      {"qwen2.5-0.5b gate+up", TensorType::q5_0, 9728, 896},
      {"qwen2.5-0.5b head", TensorType::q8_0, 151936, 896},
      {"qwen2.5-1.5b gate+up", TensorType::q4_k, 17920, 1536},
      {"qwen2.5-1.5b down", TensorType::q6_k, 1536, 8960},
  };
  std::vector<GemmCase> cases;
  for (int64_t tokens : {1, 512}) {
    for (const Shape& s : shapes) {
      // Prompts never multiply every row with the head.
      if (tokens > 1 && s.out > 20000) continue;
      cases.push_back({s.model, s.type, tokens, s.out, s.in});
    }
  }
  return cases;
}

GemmResult measure_gemm(const GemmCase& c, const OpContext& context, int repeats) {
  const TensorTypeInfo& info = tensor_type_info(c.type);
  const std::vector<std::byte> file = random_rows(c);
  const MatrixSource source{
      c.model,         c.type, c.out, c.in, file, c.in / info.block_elements * info.block_bytes,
      info.block_bytes};
  std::vector<PackedMatrix> weights;
  int64_t bytes = 0;
  do {
    weights.emplace_back(source, *context.pool);
    bytes += weights.back().bytes();
  } while (c.tokens < 64 && bytes < kColdBytes);

  Arena arena;
  const Tensor x = arena.tensor(DType::f32, c.tokens, c.in);
  const Tensor y = arena.tensor(DType::f32, c.tokens, c.out);
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t k = 0; k < c.in; ++k)
      x.row<float>(t)[k] = static_cast<float>((t * 31 + k * 17) % 201 - 100) / 100.0f;
  size_t next = 0;
  Arena scratch;
  const auto product = [&] {
    const PackedMatrix& w = weights[next++ % weights.size()];
    LinearInput input;
    input.x = x;
    scratch.reset();
    if (w.quantised()) input.quantized = quantize_rows(x, scratch, context);
    linear({&w, nullptr, y}, input, context);
  };
  const double start = seconds_now();
  product();
  const double once = std::max(seconds_now() - start, 1e-7);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(kSecondsPerRepeat / once));
  std::vector<double> times;
  for (int r = -1; r < repeats; ++r) {  // the first warms up
    const double begin = seconds_now();
    for (int64_t i = 0; i < calls; ++i) product();
    if (r >= 0) times.push_back((seconds_now() - begin) / static_cast<double>(calls));
  }
  std::sort(times.begin(), times.end());
  GemmResult result;
  result.shape = c;
  result.seconds = times[times.size() / 2];
  result.spread = (times.back() - times.front()) / result.seconds;
  result.gop_s = 2e-9 * static_cast<double>(c.tokens) * static_cast<double>(c.out) *
                 static_cast<double>(c.in) / result.seconds;
  result.read_gb_s = 1e-9 * static_cast<double>(weights[0].bytes()) / result.seconds;
  return result;
}

}  // namespace strata
