// Whole models' losses and gradients against transformers in double precision (tests/golden/train,
// tools/oracle/train_models.py), and what passes promise: the same bits for any threads, sums that
// do not depend on how a batch is cut, no cost of frozen tensors.
#include "train/train_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "exec/ref_exec.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "numeric/half.h"
#include "support/isa_level_test.h"

namespace strata {
namespace {

// Rows of several sequences with their positions and targets.
struct Rows {
  std::vector<int32_t> tokens, positions, targets;
  std::vector<SequenceRows> sequences;

  void add(std::vector<int32_t> more, std::vector<int32_t> more_targets) {
    const auto first = static_cast<int32_t>(tokens.size());
    const auto count = static_cast<int32_t>(more.size());
    sequences.push_back({first, count, 0, -1});
    for (int32_t i = 0; i < count; ++i) positions.push_back(i);
    tokens.insert(tokens.end(), more.begin(), more.end());
    targets.insert(targets.end(), more_targets.begin(), more_targets.end());
  }
  int64_t scored() const {
    return static_cast<int64_t>(targets.size()) -
           std::count(targets.begin(), targets.end(), kIgnoreTarget);
  }
  PassInput input(int64_t window_tokens) const {
    return {
        {tokens, positions, sequences}, targets.data(), 1.0f / static_cast<float>(window_tokens)};
  }
};

struct Golden {
  Rows rows;
  Json losses;
};
const Golden& golden() {
  static const Golden g = [] {
    std::ifstream file("tests/golden/train/cases.json");
    const Json all = Json::parse(file);
    Golden made;
    const auto tokens = all.at("tokens").get<std::vector<int32_t>>();
    const auto targets = all.at("targets").get<std::vector<int32_t>>();
    size_t first = 0;
    for (const size_t n : all.at("lengths").get<std::vector<size_t>>()) {
      const auto at = static_cast<std::ptrdiff_t>(first),
                 end = static_cast<std::ptrdiff_t>(first + n);
      made.rows.add({tokens.begin() + at, tokens.begin() + end},
                    {targets.begin() + at, targets.begin() + end});
      first += n;
    }
    made.losses = all.at("losses");
    return made;
  }();
  return g;
}

// A model, its parameters and a pass over them.
struct Training {
  explicit Training(const std::string& name, int threads = 1, TrainPassOptions options = {},
                    const ParameterTable::Trainable& trainable = {}, IsaLevel level = isa_level(),
                    DType operands = DType::f32)
      : model(load_model("tests/golden/architectures/" + name)),
        pool(threads),
        parameters(*model, trainable, operands),
        pass(model->transformer, parameters, model->config.context_length, options,
             {&kernel_table(level), &pool}) {}
  double run(const Rows& rows, int64_t window_tokens) {
    return pass.forward_backward(rows.input(window_tokens)).sum;
  }
  std::vector<float> gradients() const {
    return {parameters.gradients().begin(), parameters.gradients().end()};
  }

  std::unique_ptr<Model> model;
  ThreadPool pool;
  ParameterTable parameters;
  TrainPass pass;
};

double norm_of(const float* a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * double{a[i]};
  return std::sqrt(sum);
}
double distance(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return std::sqrt(sum);
}

// Largest over the tensors of |a - b| / |b|, by norm.
double worst_difference(const ParameterTable& table, const std::vector<float>& a,
                        const std::vector<float>& b) {
  double worst = 0;
  for (const Parameter& p : table.all()) {
    if (!p.trainable()) continue;
    const auto at = p.gradient - table.gradients().data();
    worst = std::max(worst, distance(a.data() + at, b.data() + at, p.size()) /
                                (norm_of(b.data() + at, p.size()) + 1e-12));
  }
  return worst;
}

// By softmax's shift the gradient of a key's bias is zero but for rounding, unless rotary positions
// follow it.
bool is_idle_bias(const Model& model, const Parameter& p) {
  return p.name.find("attn_k.bias") != std::string::npos && model.ropes.empty();
}

// ---- against transformers -----------------------------------------------------------------------

struct GoldenRun {
  const char* model;
  IsaLevel level;
  DType operands = DType::f32;
};
class TrainPassGolden : public testing::TestWithParam<GoldenRun> {
 protected:
  void SetUp() override { need_isa_level(GetParam().level); }
};

TEST_P(TrainPassGolden, LossAndEveryGradientEqualTransformers) {
  const std::string name = GetParam().model;
  const bool rounds = GetParam().operands == DType::bf16;
  // Of every product the rows are rounded too: each errs by up to 2^-8, and blocks add them up.
  const bool rounds_rows = rounds && kernel_table(GetParam().level).gemm_bf16 != nullptr;
  Training t(name, 2, {}, {}, GetParam().level, GetParam().operands);
  const Rows& rows = golden().rows;
  const double loss = t.run(rows, rows.scored()) / static_cast<double>(rows.scored());
  const std::string case_name = name + (rounds ? "_bf16" : "");
  const double wanted = golden().losses.at(case_name).get<double>();
  EXPECT_NEAR(loss, wanted, (rounds_rows ? 2e-3 : 2e-6) * wanted);
  // Weights that are not rounded, or rounded ones that should not be, would be noticed.
  if (rounds) {
    EXPECT_GT(std::abs(wanted - golden().losses.at(name).get<double>()), 2e-5 * wanted);
  }

  const auto gradients = load_model("tests/golden/train/" + case_name);
  ASSERT_EQ(gradients->weights.size(), t.parameters.all().size());
  double largest = 0;
  for (const WeightRef& w : gradients->weights) {
    const Parameter& p = *t.parameters.find(w);
    ASSERT_EQ(p.name, w.name);
    std::vector<float> g(static_cast<size_t>(p.size()));
    for (int64_t r = 0; r < w.out; ++r) decode_weight_row(w, r, g.data() + r * w.in);
    const double size = norm_of(g.data(), p.size());
    if (is_idle_bias(*t.model, p)) {
      EXPECT_LT(norm_of(p.gradient, p.size()), rounds_rows ? 1e-3 : 1e-6) << p.name;
      continue;
    }
    EXPECT_GT(norm_of(p.gradient, p.size()), 0) << p.name;
    // Roundings of sums of 103 rows and 64 columns through two blocks: some hundreds of 2^-24.
    const double error = distance(p.gradient, g.data(), p.size()) / size;
    EXPECT_LT(error, rounds_rows ? 0.03 : 2e-5) << p.name << " of norm " << size;
    largest = std::max(largest, error);
  }
  std::printf("%-12s %-8s loss %.6f, largest gradient error %.1e\n", name.c_str(),
              std::string(isa_level_name(GetParam().level)).c_str(), loss, largest);
}

INSTANTIATE_TEST_SUITE_P(Models, TrainPassGolden,
                         testing::Values(GoldenRun{"gpt2", IsaLevel::scalar},
                                         GoldenRun{"gpt2", IsaLevel::avx2},
                                         GoldenRun{"llama_bias", IsaLevel::avx2},
                                         GoldenRun{"mistral", IsaLevel::avx2},
                                         GoldenRun{"qwen3", IsaLevel::avx2},
                                         GoldenRun{"gpt2", IsaLevel::scalar, DType::bf16},
                                         GoldenRun{"gpt2", IsaLevel::avx2, DType::bf16},
                                         GoldenRun{"mistral", IsaLevel::avx2, DType::bf16},
                                         GoldenRun{"gpt2", IsaLevel::avx512_bf16, DType::bf16},
                                         GoldenRun{"mistral", IsaLevel::avx512_bf16, DType::bf16}),
                         [](const auto& p) {
                           return std::string(p.param.model) +
                                  (p.param.operands == DType::bf16 ? "_bf16_" : "_") +
                                  std::string(isa_level_name(p.param.level));
                         });

// ---- central differences through RefExec, in f64 ------------------------------------------------

double reference_loss(const Model& model, const Rows& rows) {
  RefOptions options;
  options.cache_weights = false;
  RefExec ref(options);
  const Batch batch{rows.tokens, rows.positions, rows.sequences};
  std::vector<int32_t> all(rows.tokens.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  const Tensor logits =
      forward_logits(ref, model.transformer, forward_hidden(ref, model.transformer, batch), all);
  double sum = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    if (rows.targets[r] == kIgnoreTarget) continue;
    const double* z = logits.row<double>(static_cast<int64_t>(r));
    double largest = z[0], total = 0;
    for (int64_t i = 0; i < logits.columns; ++i) largest = std::max(largest, z[i]);
    for (int64_t i = 0; i < logits.columns; ++i) total += std::exp(z[i] - largest);
    sum += largest + std::log(total) - z[rows.targets[r]];
  }
  return sum;
}

TEST(TrainPass, LossEqualsTheReferenceInDoublePrecision) {
  Training t("qwen3");
  const double wanted = reference_loss(*t.model, golden().rows);
  EXPECT_NEAR(t.pass.forward(golden().rows.input(1)).sum, wanted, 2e-6 * wanted);
  EXPECT_NEAR(t.run(golden().rows, 1), wanted, 2e-6 * wanted);
}

// ---- the promises -------------------------------------------------------------------------------

TEST(TrainPass, TwoThreadsGiveTheSameBitsWithAndWithoutDropout) {
  for (const float dropout : {0.0f, 0.3f}) {
    TrainPassOptions options;
    options.dropout = dropout;
    options.seed = 11;
    Training one("gpt2", 1, options), two("gpt2", 2, options), three("gpt2", 3, options);
    const double loss = one.run(golden().rows, 98);
    EXPECT_EQ(loss, two.run(golden().rows, 98));
    EXPECT_EQ(loss, three.run(golden().rows, 98));
    EXPECT_EQ(one.gradients(), two.gradients());
    EXPECT_EQ(one.gradients(), three.gradients());
    Training other("gpt2", 1, {.dropout = dropout, .seed = 12});
    EXPECT_EQ(loss == other.run(golden().rows, 98), dropout == 0);
  }
}

TEST(TrainPass, RecomputingBlocksGivesTheSameBitsInLessMemory) {
  for (const float dropout : {0.0f, 0.3f}) {
    Training cheap("qwen3", 1, {.dropout = dropout, .seed = 5});
    Training blocks("qwen3", 1, {.dropout = dropout, .seed = 5, .recompute = Recompute::blocks});
    EXPECT_EQ(cheap.run(golden().rows, 98), blocks.run(golden().rows, 98));
    EXPECT_EQ(cheap.gradients(), blocks.gradients());
    EXPECT_LT(blocks.pass.activation_bytes(103, true), cheap.pass.activation_bytes(103, true));
    EXPECT_LT(cheap.pass.activation_bytes(103, false), blocks.pass.activation_bytes(103, true));
  }
}

// Rounded copies are read by all passes and masters by none: with the copies' values as masters an
// f32 table gives the same bits, and numbers that are none in the masters reach nothing.
TEST(TrainPass, RoundedOperandsStandForTheirMasters) {
  for (const char* name : {"gpt2", "llama_bias", "mistral", "qwen3"}) {
    const ParameterTable::Trainable some = [](const WeightRef& w) {
      return w.name.rfind("blk.0.ffn", 0) != 0;  // frozen ones are rounded too
    };
    // Of a level that does not round rows as well.
    const IsaLevel level = std::min(isa_level(), IsaLevel::avx512_vnni);
    Training bf16(name, 2, {}, some, level, DType::bf16), f32(name, 1, {}, some, level);
    int64_t rounded = 0;
    for (size_t i = 0; i < bf16.parameters.all().size(); ++i) {
      const Parameter& p = bf16.parameters.all()[i];
      const bool looked_up = p.name == "position_embd.weight" ||
                             (p.name == "token_embd.weight" && !bf16.model->config.tied_head);
      ASSERT_EQ(p.rounded != nullptr, p.matrix() && !looked_up) << p.name;
      if (p.rounded == nullptr) continue;
      rounded += p.size();
      const Parameter& same = f32.parameters.all()[i];
      for (int64_t j = 0; j < p.size(); ++j) {
        // The nearest of bf16 is within half of its last place.
        ASSERT_NEAR(decode_bf16(p.rounded[j]), same.value[j], std::abs(same.value[j]) / 256);
        same.value[j] = decode_bf16(p.rounded[j]);
        p.value[j] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    EXPECT_GE(bf16.parameters.rounded_bytes(), static_cast<size_t>(2 * rounded));
    EXPECT_LT(bf16.parameters.rounded_bytes(), static_cast<size_t>(2 * rounded) + 64 * 32);
    EXPECT_EQ(bf16.run(golden().rows, 98), f32.run(golden().rows, 98)) << name;
    EXPECT_EQ(bf16.gradients(), f32.gradients()) << name;
    EXPECT_EQ(bf16.pass.forward(golden().rows.input(1)).sum,
              f32.pass.forward(golden().rows.input(1)).sum);
  }
}

TEST(TrainPass, ASecondPassAddsAndHoldsNoMoreMemory) {
  Training t("llama_bias");
  t.run(golden().rows, 98);
  const std::vector<float> once = t.gradients();
  const size_t held = t.pass.held_bytes();
  t.run(golden().rows, 98);
  EXPECT_EQ(t.pass.held_bytes(), held);
  std::vector<float> twice = t.gradients();
  for (float& g : twice) g /= 2;
  EXPECT_LT(worst_difference(t.parameters, twice, once), 1e-6);
}

TEST(TrainPass, FrozenTensorsHaveNoGradientAndCostNoMemory) {
  const auto head_only = [](const WeightRef& w) { return w.name.rfind("blk.1.ffn", 0) == 0; };
  Training part("llama_bias", 1, {}, head_only), whole("llama_bias");
  part.run(golden().rows, 98);
  whole.run(golden().rows, 98);
  for (const Parameter& p : part.parameters.all()) {
    const bool wanted = p.name.rfind("blk.1.ffn", 0) == 0;
    ASSERT_EQ(p.trainable(), wanted) << p.name;
    if (!wanted) continue;
    const Parameter& same =
        whole.parameters.all()[static_cast<size_t>(&p - part.parameters.all().data())];
    for (int64_t i = 0; i < p.size(); ++i) ASSERT_EQ(p.gradient[i], same.gradient[i]) << p.name;
  }
  EXPECT_LT(part.pass.activation_bytes(103, true), whole.pass.activation_bytes(103, true));
  EXPECT_LT(part.parameters.held_bytes(), whole.parameters.held_bytes());
}

TEST(TrainPass, EachSequenceOfABatchTrainsAsIfAlone) {
  Training together("mistral"), apart("mistral");
  const Rows& rows = golden().rows;
  const double whole = together.run(rows, rows.scored());
  double sum = 0;
  for (const SequenceRows& s : rows.sequences) {
    Rows alone;
    const auto at = [&](const std::vector<int32_t>& v) {
      return std::vector<int32_t>(v.begin() + s.first_row, v.begin() + s.first_row + s.rows);
    };
    alone.add(at(rows.tokens), at(rows.targets));
    sum += apart.run(alone, rows.scored());
  }
  EXPECT_NEAR(sum, whole, 1e-9 * whole);
  EXPECT_LT(worst_difference(together.parameters, apart.gradients(), together.gradients()), 1e-6);
}

TEST(TrainPass, BadInputIsRefused) {
  Training t("gpt2");
  const auto message = [&](Rows rows, const std::vector<SequenceRows>& sequences) {
    rows.sequences = sequences;
    try {
      t.run(rows, 1);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  Rows rows;
  rows.add({1, 2, 3}, {2, 3, 4});
  EXPECT_EQ(message(rows, {{0, 2, 0, -1}}), "train: the sequences have 2 rows, the batch 3");
  EXPECT_EQ(message(rows, {{0, 3, 4, -1}}),
            "train: a sequence begins at row 0 and position 4, wanted row 0 and position 0");
  Rows bad = rows;
  bad.tokens[1] = 64;
  EXPECT_EQ(message(bad, rows.sequences),
            "embedding_gather: id 64 of row 1 is outside the table's 64 rows");
  bad = rows;
  bad.positions[2] = 320;
  EXPECT_EQ(message(bad, rows.sequences),
            "train: position 320 of row 2 is outside the context, 320");
  bad = rows;
  bad.targets[0] = 64;
  EXPECT_EQ(message(bad, rows.sequences),
            "cross_entropy_head: target 0 is 64, wanted 0 to 63 or -100 (ignored)");
  EXPECT_THROW(Training("gemma3").run(rows, 1), Error);
}

}  // namespace
}  // namespace strata
