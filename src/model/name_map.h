#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/tensor_store.h"

namespace strata {

// Rows of a fused projection [q; k; v] that a weight takes.
enum class FusedPart : uint8_t { whole, q, k, v };

// Where a canonical weight lies in a model's files.
struct TensorPlace {
  std::string stem;  // of the name in the file; ".weight" or ".bias" follows
  FusedPart part = FusedPart::whole;
  bool transposed = false;  // the matrix is stored [in, out]
};

// One line of an architecture's map; '#' stands for the layer, and `file` follows the prefix unless
// it begins with '/'.
struct NameRule {
  std::string_view canonical;
  std::string_view file;
  FusedPart part = FusedPart::whole;
  bool transposed = false;
};

// Canonical names are those of GGUF files: "token_embd", "blk.3.attn_q", "output_norm", "output".
class NameMap {
 public:
  // GGUF: the canonical names themselves; "attn_qkv" where a file fuses the three.
  static NameMap for_gguf(const TensorStore& store);
  // Hugging Face: by architecture, with or without the prefix of the causal model's inner model.
  static NameMap for_hugging_face(std::string_view architecture, const TensorStore& store);

  // `stem` may have a '#', which becomes `layer`.
  TensorPlace place(std::string_view stem, int layer) const;
  // Tensors of the files that carry no weight: buffers that older programs saved.
  bool is_buffer(std::string_view name) const;

 private:
  std::span<const NameRule> rules_;  // empty: every name is canonical
  std::string prefix_;
};

// "blk.#.attn_q" and 3 give "blk.3.attn_q".
std::string with_layer(std::string_view stem, int layer);

}  // namespace strata
