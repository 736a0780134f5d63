// Case C21: however a window of examples of unequal lengths is cut, packed or padded, its loss and
// its gradient are the same: tokens count, not micro-batches.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/json.h"
#include "kernels/kernel_table.h"
#include "ops/adamw.h"
#include "support/test_data.h"
#include "train/gpt_model.h"
#include "train/optimizer.h"
#include "train/train_pass.h"

namespace strata {
namespace {

constexpr int32_t kEnd = 27;  // end of text, after the letters and the blank
constexpr int32_t kPad = 28;

// The letters of an example and its end: each predicts the next.
std::vector<int32_t> tokens_of(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(c == ' ' ? 26 : c - 'a');
  ids.push_back(kEnd);
  return ids;
}

struct Rows {
  std::vector<int32_t> tokens, positions, targets;
  std::vector<SequenceRows> sequences;

  void add_sequence(const std::vector<int32_t>& inputs, const std::vector<int32_t>& wanted) {
    sequences.push_back(
        {static_cast<int32_t>(tokens.size()), static_cast<int32_t>(inputs.size()), 0, -1});
    for (size_t i = 0; i < inputs.size(); ++i) {
      tokens.push_back(inputs[i]);
      targets.push_back(wanted[i]);
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  void add(const std::vector<int32_t>& example, int pads_right = 0) {
    std::vector<int32_t> inputs(example.begin(), example.end() - 1);
    std::vector<int32_t> wanted(example.begin() + 1, example.end());
    inputs.insert(inputs.end(), static_cast<size_t>(pads_right), kPad);
    wanted.insert(wanted.end(), static_cast<size_t>(pads_right), kIgnoreTarget);
    add_sequence(inputs, wanted);
  }
  // Padding that comes first is a sequence nobody looks at.
  void add_padding(int count) {
    add_sequence(std::vector<int32_t>(static_cast<size_t>(count), kPad),
                 std::vector<int32_t>(static_cast<size_t>(count), kIgnoreTarget));
  }
  PassInput input(int64_t window_tokens) const {
    return {
        {tokens, positions, sequences}, targets.data(), 1.0f / static_cast<float>(window_tokens)};
  }
};

struct Training {
  Training() {
    GptConfig c;
    c.vocabulary = 29;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 4;
    c.hidden = 64;
    c.mlp = 256;
    c.context = 128;
    model = make_gpt(c, 1);
    parameters = std::make_unique<ParameterTable>(*model);
    pass = std::make_unique<TrainPass>(model->transformer, *parameters, c.context,
                                       TrainPassOptions{}, context);
  }
  CrossEntropyLoss run(const Rows& rows, int64_t window_tokens) {
    return pass->forward_backward(rows.input(window_tokens));
  }
  std::vector<float> gradients() const {
    return {parameters->gradients().begin(), parameters->gradients().end()};
  }
  double gradient_norm() const {
    const std::span<const float> all = parameters->gradients();
    return std::sqrt(sum_of_squares(std::span(&all, 1), context));
  }

  ThreadPool pool{2};
  OpContext context{&kernel_table(isa_level()), &pool};
  std::unique_ptr<Model> model;
  std::unique_ptr<ParameterTable> parameters;
  std::unique_ptr<TrainPass> pass;
};

// By norm, of each tensor: within `bound` of the whole window's.
void expect_equal(const Training& t, const std::vector<float>& got,
                  const std::vector<float>& wanted, double bound, const char* what) {
  for (const Parameter& p : t.parameters->all()) {
    const auto at = p.gradient - t.parameters->gradients().data();
    double difference = 0, size = 0;
    for (int64_t i = at; i < at + p.size(); ++i) {
      const double a = got[static_cast<size_t>(i)], b = wanted[static_cast<size_t>(i)];
      difference += (a - b) * (a - b);
      size += b * b;
    }
    // The gradient of a key's bias is zero but for rounding.
    const double floor = p.name.find("attn_k.bias") != std::string::npos ? 1e-6 : 0;
    EXPECT_LE(std::sqrt(difference), bound * std::sqrt(size) + floor) << what << ": " << p.name;
  }
}

class Accumulation : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path = testing_path();
    STRATA_NEEDS(path);
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
      examples_.push_back(tokens_of(parse_json(line).at("text").get<std::string>()));
    ASSERT_EQ(examples_.size(), 8u);
    for (const auto& e : examples_) window_tokens_ += static_cast<int64_t>(e.size()) - 1;
  }
  static std::filesystem::path testing_path() { return testing::case_path("C21/data.jsonl"); }

  // The examples in micro-batches of these sizes; the sum of the losses.
  double run(Training& t, const std::vector<int>& sizes) const {
    double sum = 0;
    int64_t tokens = 0;
    size_t next = 0;
    for (const int size : sizes) {
      Rows rows;
      for (int i = 0; i < size; ++i) rows.add(examples_[next++]);
      const CrossEntropyLoss loss = t.run(rows, window_tokens_);
      sum += loss.sum;
      tokens += loss.tokens;
    }
    EXPECT_EQ(next, examples_.size());
    EXPECT_EQ(tokens, window_tokens_);
    return sum;
  }

  std::vector<std::vector<int32_t>> examples_;
  int64_t window_tokens_ = 0;
};

TEST_F(Accumulation, EverySplitGivesTheSameLossGradientAndUpdate) {
  Training whole;
  const double loss = run(whole, {8});
  const double norm = whole.gradient_norm();
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{4, 4}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 3, 2}}) {
    Training t;
    EXPECT_NEAR(run(t, sizes), loss, 1e-6 * loss) << sizes.size();
    EXPECT_NEAR(t.gradient_norm(), norm, 1e-5 * norm);
    expect_equal(t, t.gradients(), whole.gradients(), 1e-6, "split");

    // Plain SGD takes the same step.
    Training other;
    run(other, {8});
    const OptimizerOptions sgd{.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0};
    Optimizer(*t.parameters, sgd, t.context).step(1, 1e-3, 1);
    Optimizer(*other.parameters, sgd, other.context).step(1, 1e-3, 1);
    for (size_t i = 0; i < t.parameters->all().size(); ++i) {
      const Parameter &a = t.parameters->all()[i], &b = other.parameters->all()[i];
      double difference = 0, size = 0;
      for (int64_t j = 0; j < a.size(); ++j) {
        difference += std::pow(double{a.value[j]} - double{b.value[j]}, 2);
        size += std::pow(double{b.value[j]}, 2);
      }
      EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(size) + 1e-9) << a.name;
    }
  }
}

TEST_F(Accumulation, TheLossIsTheMeanOverTokensNotOverExamples) {
  Training t;
  double sum = 0, mean_of_means = 0;
  for (const auto& example : examples_) {
    Rows rows;
    rows.add(example);
    const CrossEntropyLoss loss = t.run(rows, window_tokens_);
    EXPECT_EQ(loss.tokens, static_cast<int64_t>(example.size()) - 1);
    sum += loss.sum;
    mean_of_means += loss.sum / static_cast<double>(loss.tokens) / 8;
    EXPECT_NEAR(t.pass->forward(rows.input(1)).sum, loss.sum, 1e-9 * loss.sum) << "evaluation";
  }
  Training whole;
  const double mean = run(whole, {8}) / static_cast<double>(window_tokens_);
  EXPECT_NEAR(sum / static_cast<double>(window_tokens_), mean, 1e-6 * mean);
  EXPECT_GT(std::abs(mean_of_means - mean), 1e-4);
}

TEST_F(Accumulation, PackingAndPaddingChangeNothing) {
  Training whole;
  const double loss = run(whole, {8});
  // Padded on the right to the longest, on the left by rows of their own.
  Training right, left;
  Rows right_rows, left_rows;
  for (const auto& example : examples_) {
    const int pads = 121 - static_cast<int>(example.size());
    right_rows.add(example, pads);
    if (pads > 0) left_rows.add_padding(pads);
    left_rows.add(example);
  }
  EXPECT_NEAR(right.run(right_rows, window_tokens_).sum, loss, 1e-6 * loss);
  EXPECT_NEAR(left.run(left_rows, window_tokens_).sum, loss, 1e-6 * loss);
  expect_equal(whole, right.gradients(), whole.gradients(), 1e-5, "padded right");
  expect_equal(whole, left.gradients(), whole.gradients(), 1e-5, "padded left");
  // Every end of text is a target once.
  EXPECT_EQ(std::count(right_rows.targets.begin(), right_rows.targets.end(), kEnd), 8);
}

TEST_F(Accumulation, AnotherExampleInTheRowIsNotSeen) {
  Training t;
  Rows alone, packed;
  alone.add(examples_[6]);
  packed.add(examples_[7]);
  const double before = t.run(packed, 1).sum;
  packed.add(examples_[6]);
  EXPECT_NEAR(t.run(packed, 1).sum, before + t.run(alone, 1).sum, 1e-6 * before);
}

// Random lengths and cuts: whatever they are, a window's gradient is that of its tokens, as large
// as theirs. (Divided by the micro-batches once more it would be smaller; averaged over them, of
// another direction.) A window that is not full is one of fewer examples.
TEST(RandomWindows, EveryCutGivesTheWholeWindowsGradient) {
  Training whole, cut;
  uint32_t state = 1;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  for (int window = 0; window < 6; ++window) {
    std::vector<std::vector<int32_t>> examples(window == 0 ? 1 : 2 + draw(6));
    int64_t tokens = 0;
    for (auto& example : examples) {
      example.resize(2 + (draw(3) == 0 ? draw(60) : draw(6)));
      for (int32_t& t : example) t = static_cast<int32_t>(draw(27));
      example.back() = kEnd;
      tokens += static_cast<int64_t>(example.size()) - 1;
    }
    whole.parameters->zero_gradients();
    cut.parameters->zero_gradients();
    Rows all, part;
    double sum = 0;
    int64_t trained = 0;
    const auto run_part = [&] {
      const CrossEntropyLoss loss = cut.run(part, tokens);
      sum += loss.sum;
      trained += loss.tokens;
      part = {};
    };
    for (size_t i = 0; i < examples.size(); ++i) {
      all.add(examples[i]);
      part.add(examples[i]);
      if (i + 1 == examples.size() || draw(2) == 0) run_part();
    }
    const CrossEntropyLoss loss = whole.run(all, tokens);
    EXPECT_EQ(trained, tokens) << "window " << window;
    EXPECT_EQ(loss.tokens, tokens);
    EXPECT_NEAR(sum, loss.sum, 1e-6 * loss.sum) << "window " << window;
    expect_equal(cut, cut.gradients(), whole.gradients(), 1e-6, "random window");
  }
}

}  // namespace
}  // namespace strata
