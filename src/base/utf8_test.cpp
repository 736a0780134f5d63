#include "base/utf8.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Utf8, DecodesEveryLength) {
  EXPECT_EQ(decode_utf8("a").code_point, U'a');
  EXPECT_EQ(decode_utf8("é").code_point, U'é');
  EXPECT_EQ(decode_utf8("▁x").code_point, U'▁');
  EXPECT_EQ(decode_utf8("😀").code_point, U'😀');
  EXPECT_EQ(decode_utf8("").length, 0);
}

// Expected strings from Python: bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalIllFormedParts) {
  EXPECT_EQ(replace_invalid_utf8("\xC3("), "\uFFFD(");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98z"), "\uFFFDz");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF5\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82"
                                 "a\xF4\x90"),
            "\uFFFD"
            "a\uFFFD\uFFFD");
}

TEST(Utf8, PrefixHoldsBackOnlyWhatCanBecomeACharacter) {
  EXPECT_EQ(complete_utf8_prefix("ab\xF0\x9F\x98"), 2u);
  EXPECT_EQ(complete_utf8_prefix("ab\xF0"), 2u);
  EXPECT_EQ(complete_utf8_prefix("ab😀"), 6u);
  EXPECT_EQ(complete_utf8_prefix("ab\xC3("), 4u);
  EXPECT_EQ(complete_utf8_prefix("\x80\x80"), 2u);
  EXPECT_EQ(complete_utf8_prefix("\xF0\x9F("), 3u);
  EXPECT_EQ(complete_utf8_prefix("\xED\xA0"), 2u);
}

TEST(Utf8, AppendsWhatItDecodes) {
  for (char32_t c :
       {U'\0', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string s;
    append_utf8(s, c);
    const Utf8Step step = decode_utf8(s);
    EXPECT_TRUE(step.valid);
    EXPECT_EQ(step.code_point, c);
    EXPECT_EQ(static_cast<size_t>(step.length), s.size());
  }
}

TEST(Utf8, CountsCodePoints) { EXPECT_EQ(count_code_points("aé▁😀\xFF"), 5); }

}  // namespace
}  // namespace strata
