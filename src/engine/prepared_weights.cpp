#include "engine/prepared_weights.h"

#include <algorithm>
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

// The tensors of a store in the order of their memory, to find the one a weight lies in.
class TensorsByAddress {
 public:
  explicit TensorsByAddress(const TensorStore& store) {
    for (const StoredTensor& t : store.tensors()) tensors_.push_back(&t);
    std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor* a, const StoredTensor* b) {
      return a->bytes.data() < b->bytes.data();
    });
  }
  const StoredTensor* find(const std::byte* address) const {
    auto it = std::upper_bound(
        tensors_.begin(), tensors_.end(), address,
        [](const std::byte* a, const StoredTensor* t) { return a < t->bytes.data(); });
    if (it == tensors_.begin()) return nullptr;
    const StoredTensor* t = *--it;
    return address < t->bytes.data() + t->bytes.size() ? t : nullptr;
  }

 private:
  std::vector<const StoredTensor*> tensors_;
};

}  // namespace

PreparedWeights::PreparedWeights(const Model& model, ThreadPool& pool,
                                 const std::function<void(double)>& progress)
    : matrices_(model.weights.size()), vectors_(model.weights.size()) {
  const Uses uses(model);
  const TensorsByAddress tensors(*model.store);
  double total = 1, done = 0;
  for (const WeightRef& w : model.weights) total += static_cast<double>(w.bytes.size());
  for (const WeightRef& w : model.weights) {
    const auto id = static_cast<size_t>(w.id);
    if (uses.use[id] == Use::matrix) {
      matrices_[id] = PackedMatrix({.name = w.name,
                                    .type = w.type,
                                    .out = w.out,
                                    .in = w.in,
                                    .bytes = w.bytes,
                                    .row_stride = w.row_stride,
                                    .element_stride = w.element_stride},
                                   pool);
      quantised_ = quantised_ || matrices_[id].quantised();
    } else if (uses.use[id] == Use::vector) {
      std::vector<float>& v = vectors_[id];
      v.resize(static_cast<size_t>(w.out * w.in));
      for (int64_t row = 0; row < w.out; ++row) decode_weight_row(w, row, v.data() + row * w.in);
      for (float& x : v) x = static_cast<float>(static_cast<double>(x) + uses.offset[id]);
    }
    if (const StoredTensor* t = tensors.find(w.bytes.data())) model.store->release_pages(*t);
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
