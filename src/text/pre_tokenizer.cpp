#include "text/pre_tokenizer.h"

#include <utility>

namespace strata {
namespace {

class Pattern : public PreTokenizer {
 public:
  explicit Pattern(WordPattern pattern)
      : pattern_(pattern), word_length_(word_length_function(pattern)) {}
  std::optional<WordPattern> pattern() const override { return pattern_; }
  void apply(WordList& list) const override {
    std::vector<std::string_view> out;
    for (std::string_view word : list.words) {
      while (!word.empty()) {
        const size_t n = word_length_(word.data(), word.data() + word.size());
        out.push_back(word.substr(0, n));
        word.remove_prefix(n);
      }
    }
    list.words = std::move(out);
  }

 private:
  WordPattern pattern_;
  WordLength word_length_;
};

}  // namespace

std::unique_ptr<PreTokenizer> pattern_pre_tokenizer(WordPattern pattern) {
  return std::make_unique<Pattern>(pattern);
}

}  // namespace strata
