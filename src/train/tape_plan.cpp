#include "train/tape_plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace strata {
namespace {

constexpr int64_t kLineFloats = 16;

// From the first step that touches a buffer to the last.
struct Buffer {
  int64_t floats = 0;
  int32_t first = -1;
  int32_t last = -1;
};

// Lays buffers that live at the same time side by side: the largest first, each at the lowest place
// that is free while it lives. Returns the end of the last one.
int64_t place(const std::vector<Buffer>& buffers, std::vector<int64_t>& offsets) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].floats > buffers[b].floats; });
  offsets.assign(buffers.size(), 0);
  int64_t end = 0;
  std::vector<size_t> placed, rivals;
  for (const size_t i : order) {
    const Buffer& b = buffers[i];
    rivals.clear();
    for (const size_t j : placed)
      if (buffers[j].first <= b.last && b.first <= buffers[j].last) rivals.push_back(j);
    std::sort(rivals.begin(), rivals.end(),
              [&](size_t a, size_t c) { return offsets[a] < offsets[c]; });
    int64_t offset = 0;
    for (const size_t j : rivals) {
      if (offsets[j] - offset >= b.floats) break;
      offset = std::max(offset, offsets[j] + buffers[j].floats);
    }
    offsets[i] = offset;
    placed.push_back(i);
    end = std::max(end, offset + b.floats);
  }
  return end;
}

class Planner {
 public:
  Planner(const Tape& tape, const TapePlanOptions& options)
      : tape_(tape),
        options_(options),
        value_(tape.values.size(), -1),
        saved_(tape.values.size(), -1),
        gradient_(tape.values.size(), -1) {}

  TapePlan plan() {
    const auto count = static_cast<int32_t>(tape_.entries.size());
    for (int32_t e = 0; e < count; ++e) forward(e);
    if (options_.backward) {
      for (size_t v = 0; v < value_.size(); ++v)
        if (!kept(static_cast<int32_t>(v))) value_[v] = -1;
      for (int32_t e = count; e-- > 0;) backward(e);
    }
    plan_.floats = place(buffers_, plan_.offsets);
    return std::move(plan_);
  }

 private:
  const TapeEntry& entry(int32_t e) const { return tape_.entries[static_cast<size_t>(e)]; }
  const TapeValue& value(int32_t v) const { return tape_.values[static_cast<size_t>(v)]; }

  bool kept(int32_t v) const {
    if (options_.recompute == Recompute::blocks) return value(v).block_output;
    const TapeOp op = entry(value(v).producer).op;
    return op != TapeOp::norm && op != TapeOp::activation && op != TapeOp::gated;
  }

  int32_t new_buffer(int64_t floats) {
    buffers_.push_back({(floats + kLineFloats - 1) / kLineFloats * kLineFloats, -1, -1});
    return static_cast<int32_t>(buffers_.size()) - 1;
  }
  int32_t new_buffer_of(int32_t v) { return new_buffer(value(v).rows * value(v).columns); }

  // The step that is being made reads or writes the buffer.
  int32_t touch(int32_t buffer) {
    Buffer& b = buffers_[static_cast<size_t>(buffer)];
    const auto step = static_cast<int32_t>(plan_.steps.size());
    if (b.first < 0) b.first = step;
    b.last = step;
    return buffer;
  }

  // An operand whose buffer the result may take over: nobody else reads it, and no backward does.
  bool may_take_over(int32_t v) const {
    return value(v).consumers == 1 && !value(v).block_output &&
           entry(value(v).producer).op != TapeOp::attend;
  }

  void forward(int32_t index) {
    const TapeEntry& e = entry(index);
    TapeStep s;
    s.entry = index;
    for (size_t i = 0; i < e.in.size(); ++i)
      if (e.in[i] >= 0) s.in[i] = touch(value_[static_cast<size_t>(e.in[i])]);
    if (is_loss(e.op)) {
      const int32_t x = e.in[0];
      if (options_.backward && value(x).needs_gradient)
        s.d_in[0] = touch(gradient_[static_cast<size_t>(x)] = new_buffer_of(x));
    } else {
      // rope turns in place; a sum goes over what the branch gave.
      const int32_t over = e.op == TapeOp::rope ? e.in[0] : e.op == TapeOp::add ? e.in[1] : -1;
      int32_t buffer = -1;
      if (over >= 0 && may_take_over(over)) {
        buffer = value_[static_cast<size_t>(over)];
        value_[static_cast<size_t>(over)] = -1;
      } else {
        buffer = new_buffer_of(e.out);
      }
      s.out = value_[static_cast<size_t>(e.out)] = touch(buffer);
      if (e.op == TapeOp::attend)
        s.saved = touch(saved_[static_cast<size_t>(e.out)] =
                            new_buffer(int64_t{2} * e.attention->heads * tape_.rows));
    }
    plan_.steps.push_back(s);
  }

  // Makes the value's content be there, by its producer if backward did not keep it.
  void ensure(int32_t v) {
    if (value_[static_cast<size_t>(v)] >= 0) return;
    const int32_t producer = value(v).producer;
    for (const int32_t in : entry(producer).in)
      if (in >= 0) ensure(in);
    forward(producer);
  }

  // Which operands the backward of an entry reads.
  bool reads(const TapeEntry& e, size_t operand) const {
    switch (e.op) {
      case TapeOp::norm:
      case TapeOp::activation:
      case TapeOp::gated:
      case TapeOp::attend:
      case TapeOp::multiply:
        return true;
      case TapeOp::linear:
      case TapeOp::multiply_columns:
        return operand == 0 && e.weight->trainable();
      default:
        return false;
    }
  }

  // Where the gradient of operand i of the step goes.
  void give(TapeStep& s, const TapeEntry& e, size_t i, int32_t buffer) {
    int32_t& gradient = gradient_[static_cast<size_t>(e.in[i])];
    s.adds[i] = gradient >= 0;
    if (gradient < 0) gradient = buffer >= 0 ? buffer : new_buffer_of(e.in[i]);
    s.d_in[i] = touch(gradient);
  }

  // These have no form that adds to a gradient. The model's own are read by nobody else; a reading
  // of heads and adapters may try.
  void refuse_second_reader(const TapeStep& s, const TapeEntry& e, size_t i) const {
    const bool alone = e.op == TapeOp::rope || e.op == TapeOp::activation ||
                       e.op == TapeOp::gated || e.op == TapeOp::attend ||
                       (e.op == TapeOp::add && i == 1 && e.drops && options_.dropout);
    if (alone && s.adds[i])
      fail(ErrorCode::unsupported,
           "train: what an activation, rope, attention or a branch reads is read by others too; "
           "give it scale(x, 1)");
  }

  // A sum passes its gradient on. Both operands may have it as one buffer if the producer of the
  // branch only reads it, and whoever still adds to it does so after that.
  bool may_share(const TapeEntry& e) const {
    const TapeOp maker = entry(value(e.in[1]).producer).op;
    if (options_.dropout || (maker != TapeOp::linear && maker != TapeOp::norm)) return false;
    if (gradient_[static_cast<size_t>(e.in[0])] >= 0 ||
        gradient_[static_cast<size_t>(e.in[1])] >= 0 || value(e.in[1]).consumers != 1)
      return false;
    const int32_t branch = value(e.in[1]).producer;
    for (size_t other = static_cast<size_t>(branch) + 1; other < tape_.entries.size(); ++other)
      for (const int32_t v : tape_.entries[other].in)
        if (v == e.in[0] && &tape_.entries[other] != &e) return false;
    return true;
  }

  void backward(int32_t index) {
    const TapeEntry& e = entry(index);
    if (is_loss(e.op) || !value(e.out).needs_gradient) return;
    if (gradient_[static_cast<size_t>(e.out)] < 0) return;  // no loss depends on it
    for (size_t i = 0; i < e.in.size(); ++i)
      if (e.in[i] >= 0 && reads(e, i)) ensure(e.in[i]);
    if (e.op == TapeOp::attend) ensure(e.out);
    TapeStep s;
    s.entry = index;
    s.phase = TapePhase::backward;
    for (size_t i = 0; i < e.in.size(); ++i)
      if (e.in[i] >= 0 && reads(e, i)) s.in[i] = touch(value_[static_cast<size_t>(e.in[i])]);
    const int32_t d_out = gradient_[static_cast<size_t>(e.out)];
    s.d_out = touch(d_out);
    if (e.op == TapeOp::attend) {
      s.out = touch(value_[static_cast<size_t>(e.out)]);
      s.saved = touch(saved_[static_cast<size_t>(e.out)]);
    }
    const bool share = e.op == TapeOp::add && may_share(e);
    for (size_t i = 0; i < e.in.size(); ++i) {
      // These make the gradients of all operands at once, wanted or not.
      const bool all = e.op == TapeOp::attend || e.op == TapeOp::gated || e.op == TapeOp::norm;
      if (e.in[i] < 0 || (!all && !value(e.in[i]).needs_gradient)) continue;
      // Elementwise operations write the gradient of their first operand over that of the result.
      const bool over = e.op == TapeOp::rope || e.op == TapeOp::activation ||
                        e.op == TapeOp::gated || e.op == TapeOp::add;
      give(s, e, i, over && (i == 0 || share) ? d_out : -1);
      refuse_second_reader(s, e, i);
    }
    plan_.steps.push_back(s);
  }

  const Tape& tape_;
  TapePlanOptions options_;
  // By value: the buffer that holds it now, what attend saved with it, its gradient; -1: none.
  std::vector<int32_t> value_, saved_, gradient_;
  std::vector<Buffer> buffers_;
  TapePlan plan_;
};

}  // namespace

TapePlan plan_tape(const Tape& tape, const TapePlanOptions& options) {
  return Planner(tape, options).plan();
}

}  // namespace strata
