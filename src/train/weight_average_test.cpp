#include "train/weight_average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "train/gpt_model.h"

namespace strata {
namespace {

struct AveragedModel {
  explicit AveragedModel(int threads = 1) : pool(threads) {
    GptConfig c;
    c.vocabulary = 7;
    c.hidden = 16;
    c.mlp = 64;
    c.context = 8;
    c.positions = GptPositions::sinusoidal;  // a tensor that is frozen
    model = make_gpt(c, 1);
    parameters = std::make_unique<ParameterTable>(
        *model, [c](const WeightRef& w) { return is_trainable(c, w); });
    average = std::make_unique<WeightAverage>(*parameters, 0.75,
                                              OpContext{&kernel_table(IsaLevel::scalar), &pool});
  }
  // All weights become `value` plus their number times `slope`.
  void set(float value, float slope = 0) {
    for (const Parameter& p : parameters->all())
      for (int64_t i = 0; i < p.size(); ++i) p.value[i] = value + slope * static_cast<float>(i);
  }
  ThreadPool pool;
  std::unique_ptr<Model> model;
  std::unique_ptr<ParameterTable> parameters;
  std::unique_ptr<WeightAverage> average;
};

// By hand, d = 3/4: after weights 8, 16, 0 their shares are 9/37, 12/37 and 16/37.
TEST(WeightAverage, IsTheWeightedMeanByHand) {
  AveragedModel m;
  m.set(8);
  m.average->add(1);
  m.set(16);
  m.average->add(2);
  m.set(0);
  m.average->add(3);
  const float wanted = (9.0f * 8 + 12.0f * 16) / 37;
  {
    const WeightAverage::InUse use(m.average.get());
    for (const Parameter& p : m.parameters->all())
      for (int64_t i = 0; i < p.size(); ++i)
        ASSERT_NEAR(p.value[i], p.trainable() ? wanted : 0, 1e-6) << p.name;
  }
  for (const Parameter& p : m.parameters->all())
    for (int64_t i = 0; i < p.size(); ++i) ASSERT_EQ(p.value[i], 0) << p.name;
}

TEST(WeightAverage, AfterOneStepItIsTheWeights) {
  AveragedModel m;
  m.set(0.3f, 0.01f);
  m.average->add(1);
  m.set(5);
  const WeightAverage::InUse use(m.average.get());
  for (const Parameter& p : m.parameters->all()) {
    if (!p.trainable()) continue;
    for (int64_t i = 0; i < p.size(); ++i)
      ASSERT_EQ(p.value[i], 0.3f + 0.01f * static_cast<float>(i)) << p.name;
  }
}

TEST(WeightAverage, NoneIsNone) {
  AveragedModel m;
  m.set(2);
  const WeightAverage::InUse use(nullptr);
  EXPECT_EQ(m.parameters->all().front().value[0], 2);
}

}  // namespace
}  // namespace strata
