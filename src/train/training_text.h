#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// The text of a file, or of the .txt files of a folder in order of their names, one after the
// other. It is never in memory as a whole.
class TrainingText {
 public:
  // Reads all of it once. `tick` is called every few megabytes and may throw to end it. Throws
  // Error{not_found}, and {data_corrupt} for no text at all or, naming the byte, for text that is
  // no UTF-8.
  explicit TrainingText(const std::filesystem::path& path, const std::function<void()>& tick = {});

  int64_t bytes() const { return bytes_; }
  int64_t characters() const { return characters_; }  // code points
  const std::string& hash() const { return hash_; }   // sha256 of the text
  const std::vector<char32_t>& alphabet() const {
    return alphabet_;
  }  // those that occur, ascending

  // The text in pieces of some megabytes, one after the other. They end before a blank or a
  // line end that follows a letter: no word of a byte-level tokenizer is cut, so that the tokens of
  // the pieces are those of the text. Where a piece has no such place it ends between two
  // characters.
  void read(const std::function<void(std::string_view piece)>& take) const;

 private:
  std::vector<std::filesystem::path> files_;
  int64_t bytes_ = 0;
  int64_t characters_ = 0;
  std::string hash_;
  std::vector<char32_t> alphabet_;
};

}  // namespace strata
