#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/explain_attention.h"
#include "train/live_page.h"
#include "train/trainer.h"

namespace strata::cli {

// The live page of a run, with what an earlier part of it has left. `port`: 0: any free one.
std::unique_ptr<LivePage> open_live_page(int port, const std::string& out, const Trainer& trainer);

// Of at most 64 heads, evenly spread.
LiveAttention live_attention(const std::vector<ExplainedAttention>& layers, int64_t step);

}  // namespace strata::cli
