#include "text/piece_decoder.h"

#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"

namespace strata {
namespace {

class ByteLevel : public DecodeStep {
 public:
  void apply(std::string& piece, bool) const override {
    if (auto bytes = bytes_of_spelling(piece)) piece = std::move(*bytes);
  }
};

class Replace : public DecodeStep {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {
    STRATA_ASSERT(!from_.empty());
  }
  void apply(std::string& piece, bool) const override { piece = replace_all(piece, from_, to_); }

 private:
  std::string from_, to_;
};

class ByteFallback : public DecodeStep {
 public:
  void apply(std::string& piece, bool) const override {
    if (const auto byte = byte_of_hex_piece(piece)) piece.assign(1, static_cast<char>(*byte));
  }
};

class StripFront : public DecodeStep {
 public:
  StripFront(std::string character, size_t count, bool only_first)
      : character_(std::move(character)), count_(count), only_first_(only_first) {
    STRATA_ASSERT(!character_.empty());
  }
  void apply(std::string& piece, bool at_start) const override {
    if (only_first_ && !at_start) return;
    for (size_t i = 0; i < count_ && piece.compare(0, character_.size(), character_) == 0; ++i)
      piece.erase(0, character_.size());
  }

 private:
  std::string character_;
  size_t count_;
  bool only_first_;
};

class WordPiece : public DecodeStep {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::string& piece, bool at_start) const override {
    if (!at_start) {
      if (!prefix_.empty() && piece.compare(0, prefix_.size(), prefix_) == 0)
        piece.erase(0, prefix_.size());
      else
        piece.insert(piece.begin(), ' ');
    }
    if (!cleanup_) return;
    for (const std::string_view spaced :
         {" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"})
      piece = replace_all(piece, spaced, spaced.substr(1));
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace

std::unique_ptr<DecodeStep> byte_level_decode_step() { return std::make_unique<ByteLevel>(); }
std::unique_ptr<DecodeStep> replace_decode_step(std::string from, std::string to) {
  return std::make_unique<Replace>(std::move(from), std::move(to));
}
std::unique_ptr<DecodeStep> byte_fallback_decode_step() { return std::make_unique<ByteFallback>(); }
std::unique_ptr<DecodeStep> strip_front_decode_step(std::string character, size_t count,
                                                    bool only_first) {
  return std::make_unique<StripFront>(std::move(character), count, only_first);
}

std::unique_ptr<DecodeStep> word_piece_decode_step(std::string prefix, bool cleanup) {
  return std::make_unique<WordPiece>(std::move(prefix), cleanup);
}

}  // namespace strata
