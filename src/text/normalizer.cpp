#include "text/normalizer.h"

#include <utility>

#include "base/error.h"

namespace strata {
namespace {

class Replace : public Normalizer {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {
    STRATA_ASSERT(!from_.empty());
  }
  void apply(std::string& text) const override { text = replace_all(text, from_, to_); }

 private:
  std::string from_, to_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string_view::npos; at = hit + from.size()) {
    out += text.substr(at, hit - at);
    out += to;
  }
  out += text.substr(at);
  return out;
}

std::unique_ptr<Normalizer> replace_normalizer(std::string from, std::string to) {
  return std::make_unique<Replace>(std::move(from), std::move(to));
}
std::unique_ptr<Normalizer> prepend_normalizer(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

}  // namespace strata
