#include "bench/gemm.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "bench/timing.h"
#include "ops/linear.h"
#include "tensor/arena.h"

namespace strata {
namespace {

// More than any last-level cache of the machines we know holds.
constexpr int64_t kColdBytes = int64_t{384} << 20;
// No matrix of a model is so small that this many are not enough.
constexpr size_t kMostCopies = 4096;
constexpr double kSecondsPerRepeat = 0.03;
// From here on a product is bound by arithmetic, and belongs to a prompt.
constexpr int64_t kColdRows = 64;

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

// Every shape at each number of tokens. Prompts never multiply every row with the head.
std::vector<GemmCase> at_each(std::span<const int64_t> tokens,
                              const std::vector<GemmCase>& shapes) {
  std::vector<GemmCase> cases;
  for (const int64_t rows : tokens) {
    for (GemmCase shape : shapes) {
      if (rows >= kColdRows && shape.name == "head") continue;
      shape.tokens = rows;
      cases.push_back(std::move(shape));
    }
  }
  return cases;
}

}  // namespace

void check_case(const GemmCase& c) {
  const TensorTypeInfo& info = tensor_type_info(c.type);
  if (c.tokens < 1 || c.out < 1 || c.in < 1 || c.in % info.block_elements != 0)
    fail(ErrorCode::invalid_argument,
         "bench gemm: {} tokens times a [{}, {}] matrix of {}, wanted sizes above 0 and a width "
         "that is a multiple of {}",
         c.tokens, c.out, c.in, info.name, info.block_elements);
}

std::vector<GemmCase> default_gemm_cases(std::span<const int64_t> tokens) {
  struct Shape {
    const char* model;
    const char* name;
    TensorType type;
    int64_t out, in;
  };
  const Shape shapes[] = {
      {"smollm2-135m", "qkv", TensorType::q4_1, 960, 576},
      {"smollm2-135m", "o", TensorType::q4_1, 576, 576},
      {"smollm2-135m", "gate+up", TensorType::q4_1, 3072, 576},
      {"smollm2-135m", "down", TensorType::q4_1, 576, 1536},
      {"smollm2-135m", "head", TensorType::q4_1, 49152, 576},
      {"qwen2.5-0.5b", "gate+up", TensorType::q5_0, 9728, 896},
      {"qwen2.5-0.5b", "head", TensorType::q8_0, 151936, 896},
      {"qwen2.5-1.5b", "gate+up", TensorType::q4_k, 17920, 1536},
      {"qwen2.5-1.5b", "down", TensorType::q6_k, 1536, 8960},
  };
  std::vector<GemmCase> all;
  for (const Shape& s : shapes) all.push_back({s.model, s.name, s.type, 1, s.out, s.in});
  return at_each(tokens, all);
}

std::vector<GemmCase> model_gemm_cases(const Model& model, std::span<const int64_t> tokens) {
  std::vector<GemmCase> shapes;
  const auto add = [&](const char* name, const Linear& linear) {
    const WeightRef& w = linear.weight;
    if (!w) return;
    const auto key = [](const GemmCase& c) { return std::tuple(c.name, c.type, c.out, c.in); };
    GemmCase shape{model.path.stem().string(), name, w.type, 1, w.out, w.in};
    for (const GemmCase& known : shapes)
      if (key(known) == key(shape)) return;
    shapes.push_back(std::move(shape));
  };
  for (const BlockWeights& b : model.transformer.blocks) {
    add("q", b.attn.q);
    add("k", b.attn.k);
    add("v", b.attn.v);
    add("o", b.attn_output);
    add("gate", b.mlp.gate);
    add("up", b.mlp.up);
    add("down", b.mlp.down);
  }
  add("head", model.transformer.head);
  return at_each(tokens, shapes);
}

Measurement measure_gemm(const GemmCase& c, const OpContext& context, int repeats) {
  check_case(c);
  const TensorTypeInfo& info = tensor_type_info(c.type);
  const std::vector<std::byte> file = random_rows(c);
  const MatrixSource source{
      c.name,          c.type, c.out, c.in, file, c.in / info.block_elements * info.block_bytes,
      info.block_bytes};
  std::vector<PackedMatrix> weights;
  int64_t bytes = 0;
  do {
    weights.emplace_back(source, *context.pool);
    bytes += weights.back().bytes();
  } while (c.tokens < kColdRows && bytes < kColdBytes && weights.size() < kMostCopies);

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
  const double start = now_seconds();
  product();
  const double once = std::max(now_seconds() - start, 1e-7);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(kSecondsPerRepeat / once));
  const double operations =
      2.0 * static_cast<double>(c.tokens) * static_cast<double>(c.out) * static_cast<double>(c.in);
  Measurement m;
  m.what = "gemm";
  m.model = c.model;
  if (!c.name.empty()) m.params["name"] = c.name;
  m.params["type"] = info.name;
  m.params["tokens"] = c.tokens;
  m.params["out"] = c.out;
  m.params["in"] = c.in;
  m.unit = is_quantised(c.type) ? "GOP/s" : "GFLOP/s";
  for (int r = -1; r < repeats; ++r) {  // the first warms up
    const double begin = now_seconds();
    for (int64_t i = 0; i < calls; ++i) product();
    const double seconds = (now_seconds() - begin) / static_cast<double>(calls);
    if (r >= 0) m.values.push_back(1e-9 * operations / seconds);
  }
  m.work.add_product(c.type, operations);
  m.work.read_bytes = static_cast<double>(file.size());
  m.units = 1e-9 * operations;
  return m;
}

}  // namespace strata
