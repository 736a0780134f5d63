#pragma once

#include <cstdint>

namespace strata {

// A vector b that a layer adds to every key of a head before the key is turned by its position
// (rope, R_t). In pages of q8 and q4 it would drown what tells keys apart (in Qwen 2 it reaches
// 354 where the median is 0.7), so it is left out of them and comes into the scores exactly:
//
//   q . R_t (n + b) = q . R_t n + (R_-s q) . (R_(t-s) b)     s: the first position of t's chunk
//
// so one table of 64 turned biases a head serves all chunks. The key at position 0, unlike all
// others in many models, may have a bias of its own; the first chunk has another table then.
class KeyBias {
 public:
  virtual ~KeyBias() = default;

  // [kChunkPanels][Dh][16]: R_i b for i of 0..63, as KvHead::added_keys of the chunk wants them.
  virtual const float* panel(int kv_head, int32_t chunk) const = 0;
  // key [Dh] of position t: key -= R_t b.
  virtual void remove(int64_t position, int kv_head, float* key) const = 0;
  // out [Dh] = R_-position q, without the factor that some ropes put on cosines and sines.
  virtual void turn_back(int64_t position, const float* q, float* out) const = 0;
};

}  // namespace strata
