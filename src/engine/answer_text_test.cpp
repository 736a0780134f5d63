#include "engine/answer_text.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

struct Streamed {
  std::vector<std::string> deltas;
  std::string text;
  bool stopped = false;
};

Streamed stream(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(std::move(stops));
  Streamed out;
  for (const std::string& piece : pieces) {
    out.deltas.push_back(matcher.push(piece));
    out.text += out.deltas.back();
    if (matcher.stopped()) break;
  }
  out.text += matcher.finish();
  out.stopped = matcher.stopped();
  return out;
}

const std::vector<std::string> kPieces = {"alpha", " beta", "😀",    " gamma",
                                          " de",   "lta",   " eps", "ilon"};

TEST(StopMatcher, CutsInsideAndAcrossTokens) {
  EXPECT_EQ(stream({"gamma de"}, kPieces).text, "alpha beta😀 ");
  EXPECT_EQ(stream({"mma delt"}, kPieces).text, "alpha beta😀 ga");
  EXPECT_EQ(stream({"a"}, kPieces).text, "");
  EXPECT_EQ(stream({"epsilon", "beta"}, kPieces).text, "alpha ");
  EXPECT_TRUE(stream({"epsilon", "beta"}, kPieces).stopped);
}

TEST(StopMatcher, NothingOfAMatchLeaks) {
  const Streamed s = stream({"gamma de"}, kPieces);
  EXPECT_EQ(s.deltas, (std::vector<std::string>{"alpha", " beta", "😀", " ", ""}));
}

TEST(StopMatcher, HoldsBackOnlyWhatCanBecomeAStop) {
  const Streamed s = stream({"zzz"}, kPieces);
  EXPECT_EQ(s.deltas, kPieces);
  const Streamed unfinished = stream({"gamma delta epsilon and more"}, kPieces);
  EXPECT_FALSE(unfinished.stopped);
  EXPECT_EQ(unfinished.text, "alpha beta😀 gamma delta epsilon");
  EXPECT_EQ(unfinished.deltas[3], " ");
}

TEST(StopMatcher, OverlappingBeginningsAreNotMissed) {
  EXPECT_EQ(stream({"aab"}, {"a", "a", "a", "b", "c"}).text, "a");
  EXPECT_EQ(stream({"abab", "bx"}, {"ab", "a", "bx"}).text, "");
  EXPECT_EQ(stream({"ba", "aba"}, {"xa", "b", "ay"}).text, "x");
}

TEST(StopMatcher, SplitDoesNotMatter) {
  std::string whole;
  for (const auto& p : kPieces) whole += p;
  for (const std::string stop : {"mma delt", "ta eps", "n", "😀 g", "lphaa", "ilonx"}) {
    const std::string want = whole.substr(0, whole.find(stop));
    std::vector<std::string> bytes;
    for (char c : whole) bytes.emplace_back(1, c);
    EXPECT_EQ(stream({stop}, {whole}).text, want) << stop;
    EXPECT_EQ(stream({stop}, bytes).text, want) << stop;
    EXPECT_EQ(stream({stop}, kPieces).text, want) << stop;
  }
}

}  // namespace
}  // namespace strata
