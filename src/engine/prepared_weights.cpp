#include "engine/prepared_weights.h"

#include <string>

#include "base/error.h"

namespace strata {
namespace {

enum class Use : uint8_t { none, matrix, vector };

// What the forward pass does with each weight, by id.
struct Uses {
  std::vector<Use> use;
  std::vector<double> offset;  // of norm weights

  explicit Uses(const Model& model)
      : use(model.weights.size(), Use::none), offset(model.weights.size(), 0.0) {
    const Transformer& t = model.transformer;
    matrix(t.embedding.tokens);
    matrix(t.embedding.positions);
    for (const BlockWeights& b : t.blocks) {
      for (const Linear* l :
           {&b.attn.q, &b.attn.k, &b.attn.v, &b.attn_output, &b.mlp.gate, &b.mlp.up, &b.mlp.down})
        linear(*l);
      for (const Norm* n : {&b.attn_norm, &b.attn.q_norm, &b.attn.k_norm, &b.attn_post_norm,
                            &b.mlp_norm, &b.mlp_post_norm})
        norm(*n);
    }
    norm(t.output_norm);
    linear(t.head);
  }

 private:
  void matrix(const WeightRef& w) {
    if (w) use[static_cast<size_t>(w.id)] = Use::matrix;
  }
  void vector(const WeightRef& w) {
    if (w) use[static_cast<size_t>(w.id)] = Use::vector;
  }
  void linear(const Linear& l) {
    matrix(l.weight);
    vector(l.bias);
  }
  void norm(const Norm& n) {
    if (!n) return;
    vector(n.weight);
    vector(n.bias);
    offset[static_cast<size_t>(n.weight.id)] = n.weight_offset;
  }
};

MatrixSource source_of(const WeightRef& w) {
  return {.name = w.name,
          .type = w.type,
          .out = w.out,
          .in = w.in,
          .bytes = w.bytes,
          .row_stride = w.row_stride,
          .element_stride = w.element_stride};
}

// What a matrix takes of the block of all: its end stays on a cache line's border.
size_t room_of(const WeightRef& w) {
  constexpr size_t kLine = 64;
  return (static_cast<size_t>(packed_matrix_bytes(source_of(w))) + kLine - 1) / kLine * kLine;
}

}  // namespace

PreparedWeights::PreparedWeights(const Model& model, ThreadPool& pool,
                                 const std::function<void(double)>& progress)
    : matrices_(model.weights.size()), vectors_(model.weights.size()) {
  const Uses uses(model);
  size_t room = 0;
  for (const WeightRef& w : model.weights)
    if (uses.use[static_cast<size_t>(w.id)] == Use::matrix) room += room_of(w);
  memory_ = AlignedBuffer(room, HugePages::advise);

  std::byte* next = memory_.as<std::byte>();
  double total = 1, done = 0;
  for (const WeightRef& w : model.weights) total += static_cast<double>(w.bytes.size());
  const auto release = [&](std::span<const std::byte> part) { model.store->release_pages(part); };
  for (const WeightRef& w : model.weights) {
    const auto id = static_cast<size_t>(w.id);
    if (uses.use[id] == Use::matrix) {
      matrices_[id] = PackedMatrix(source_of(w), pool, {.memory = next, .release = release});
      next += room_of(w);
      quantised_ = quantised_ || matrices_[id].quantised();
    } else if (uses.use[id] == Use::vector) {
      std::vector<float>& v = vectors_[id];
      v.resize(static_cast<size_t>(w.out * w.in));
      for (int64_t row = 0; row < w.out; ++row) decode_weight_row(w, row, v.data() + row * w.in);
      for (float& x : v) x = static_cast<float>(static_cast<double>(x) + uses.offset[id]);
      release(w.bytes);
    }
    done += static_cast<double>(w.bytes.size());
    if (progress) progress(done / total);
  }
  // A file cut short while it was read shows as zeros; they must not be served.
  model.store->check_intact();
  if (progress) progress(1);
}

const PackedMatrix& PreparedWeights::matrix(const WeightRef& w) const {
  STRATA_ASSERT(w && matrices_[static_cast<size_t>(w.id)]);
  return matrices_[static_cast<size_t>(w.id)];
}

const float* PreparedWeights::vector(const WeightRef& w) const {
  return w ? vectors_[static_cast<size_t>(w.id)].data() : nullptr;
}

uint64_t PreparedWeights::bytes() const {
  uint64_t sum = 0;
  for (const PackedMatrix& m : matrices_) sum += static_cast<uint64_t>(m.bytes());
  for (const std::vector<float>& v : vectors_) sum += v.size() * sizeof(float);
  return sum;
}

}  // namespace strata
