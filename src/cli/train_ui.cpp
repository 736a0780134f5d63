#include "cli/train_ui.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace strata::cli {

std::unique_ptr<LivePage> open_live_page(int port, const std::string& out, const Trainer& trainer) {
  const TrainConfig& c = trainer.state().config;
  OrderedJson about;
  about["out"] = out;
  about["parameters"] = trainer.model().parameter_count;
  about["vocabulary"] = trainer.state().vocabulary;
  about["layers"] = c.layers;
  about["width"] = c.hidden;
  about["heads"] = c.heads;
  about["context"] = c.context;
  about["optimizer"] = c.optimizer;
  LiveState state(std::move(about));
  if (trainer.metrics() != nullptr) state.take_history(*trainer.metrics());
  return std::make_unique<LivePage>(static_cast<uint16_t>(port), std::move(state));
}

LiveAttention live_attention(const std::vector<ExplainedAttention>& layers, int64_t step) {
  constexpr size_t kMostHeads = 64;
  LiveAttention out;
  out.step = step;
  if (layers.empty()) return out;
  out.tokens = layers.front().tokens;
  std::vector<std::pair<const ExplainedAttention*, int64_t>> heads;
  for (const ExplainedAttention& a : layers)
    for (int64_t h = 0; h < a.shape.heads; ++h) heads.emplace_back(&a, h);
  const size_t shown = std::min(heads.size(), kMostHeads);
  for (size_t i = 0; i < shown; ++i) {
    const auto& [a, h] = heads[i * heads.size() / shown];
    LiveAttention::Head head{a->layer, h, {}};
    const int64_t count = a->shape.queries * a->shape.keys;
    for (int64_t w = h * count; w < (h + 1) * count; ++w)
      head.weights.push_back(
          static_cast<int>(std::lround(1000 * a->steps.weights[static_cast<size_t>(w)])));
    out.heads.push_back(std::move(head));
  }
  return out;
}

}  // namespace strata::cli
