#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// Changes a text before it is cut into words. Immutable. Ill-formed bytes pass unchanged.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text) const = 0;
};
using NormalizerList = std::vector<std::unique_ptr<Normalizer>>;

// Every `from` (not empty), from left to right, becomes `to`.
std::unique_ptr<Normalizer> replace_normalizer(std::string from, std::string to);
// `prefix` before a text that is not empty.
std::unique_ptr<Normalizer> prepend_normalizer(std::string prefix);

// The replacing itself, for decoders too.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace strata
