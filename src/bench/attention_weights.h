#pragma once

#include <cstdint>
#include <vector>

namespace strata {

// Attention as the textbook has it, in double precision, with everything in between kept: for
// showing, not for speed (memory is B H Tq Tk).
struct AttentionShape {
  int64_t batch = 1;
  int64_t heads = 1;      // H
  int64_t kv_heads = 1;   // Hk, divides H
  int64_t queries = 0;    // Tq
  int64_t keys = 0;       // Tk; self-attention: Tq
  int64_t head_size = 0;  // Dh
};

enum class AttentionView : uint8_t {
  full,    // every query sees every key: cross-attention
  causal,  // query i sees keys 0 .. i + Tk - Tq
};

struct AttentionSteps {
  std::vector<double> scores;   // [B, H, Tq, Tk]: q . k
  std::vector<double> scaled;   // the same times scale; -infinity where a key is not seen
  std::vector<double> weights;  // softmax of each row: sums to 1 (zeros where nothing is seen)
  std::vector<double> out;      // [B, H, Tq, Dh]
};

// q [B, H, Tq, Dh], k and v [B, Hk, Tk, Dh]. Throws Error{invalid_argument} naming the operand that
// does not fit.
AttentionSteps attention(const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const AttentionShape& shape, double scale,
                         AttentionView view);
// The same; a query sees a key where mask [B, Tq, Tk] is not zero, in all heads.
AttentionSteps attention(const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const AttentionShape& shape, double scale,
                         const std::vector<uint8_t>& mask);

// One block of an online softmax: what is known after it.
struct OnlineSoftmaxStep {
  std::vector<double> block;
  double max = 0;     // of all so far
  double factor = 0;  // what the old sum is multiplied by: e^(old max - max)
  double sum = 0;     // of e^(x - max) so far
};
// Reads x once, `block` numbers at a time, without knowing what is still to come; the softmax of x
// is then e^(x - max) / sum with the last step's numbers (Milakov & Gimelshein 2018).
std::vector<OnlineSoftmaxStep> online_softmax(const std::vector<double>& x, int64_t block);

}  // namespace strata
