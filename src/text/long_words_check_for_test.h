#pragma once

// Texts of one long word each, and the test that their tokenization takes linear time.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace strata::testing {

inline std::string repeat(std::string_view unit, size_t bytes) {
  std::string out;
  while (out.size() + unit.size() <= bytes) out += unit;
  return out;
}

inline std::string random_letters(size_t bytes) {
  std::string out(bytes, ' ');
  uint32_t x = 7;
  for (char& c : out) {
    x = x * 1664525u + 1013904223u;
    c = static_cast<char>('a' + (x >> 24) % 26);
  }
  return out;
}

struct LongText {
  const char* name;
  std::string (*make)(size_t bytes);
};
inline const LongText kLongTexts[] = {
    {"one letter", [](size_t n) { return repeat("a", n); }},
    {"random letters", random_letters},
    {"spaces", [](size_t n) { return repeat(" ", n); }},
    {"line ends", [](size_t n) { return repeat("\n", n); }},
    {"digits", [](size_t n) { return repeat("7", n); }},
    {"emoji", [](size_t n) { return repeat("\U0001F600", n); }},
    {"ideographs", [](size_t n) { return repeat("汉字", n); }},
    {"pairs", [](size_t n) { return repeat("ab", n); }},
    {"punctuation", [](size_t n) { return repeat("!?", n); }},
    {"less-than", [](size_t n) { return repeat("<", n); }},
};

// Of this thread's processor, which other programs do not use up.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double seconds_of(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = thread_seconds();
    run();
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

// 40 times the text costs up to 90 times the time, for the larger one fits no cache; a quadratic
// method would cost 1,600 times. 400 leaves the slack that caches shared with a busy machine need.
inline void expect_linear(const Tokenizer& t, const std::string& tokenizer) {
  for (const LongText& text : kLongTexts) {
    const std::string small = text.make(10'000);
    const std::string large = text.make(400'000);
    const double one = seconds_of([&] { t.encode(small); });
    const double forty = seconds_of([&] { t.encode(large); });
    EXPECT_LT(forty, 400 * one + 0.02) << tokenizer << ", " << text.name;
  }
}

}  // namespace strata::testing
