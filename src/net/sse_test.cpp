#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::net {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

Events parse(std::string_view text, size_t piece) {
  SseParser parser;
  Events events;
  for (size_t i = 0; i < text.size(); i += piece) {
    parser.feed(text.substr(i, piece),
                [&](const SseEvent& e) { events.emplace_back(e.event, e.data); });
  }
  return events;
}

TEST(Sse, WritesWhatClientsExpect) {
  EXPECT_EQ(sse_data("{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_error("{}"), "event: error\ndata: {}\n\n");
  EXPECT_EQ(sse_data("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_data(""), "data: \n\n");
}

// The examples of the specification (WHATWG HTML, section 9.2.6), with its answers.
TEST(Sse, ReadsTheSpecificationsExamples) {
  EXPECT_EQ(parse("data: YHOO\ndata: +2\ndata: 10\n\n", 100), (Events{{"", "YHOO\n+2\n10"}}));
  EXPECT_EQ(parse(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
                  "data:  third event",
                  100),
            (Events{{"", "first event"}, {"", "second event"}}));
  EXPECT_EQ(parse("data\n\ndata\ndata\n\ndata:", 100), (Events{{"", ""}, {"", "\n"}}));
  EXPECT_EQ(parse("data:test\n\ndata: test\n\n", 100), (Events{{"", "test"}, {"", "test"}}));
}

TEST(Sse, AnyLineEndAndAnyPieces) {
  const std::string text =
      "\xEF\xBB\xBF"
      "data: a\r\ndata: b\r\n\r\nevent: error\rdata: c\r\r: ping\n\ndata: d\n\n";
  const Events wanted{{"", "a\nb"}, {"error", "c"}, {"", "d"}};
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(parse(text, piece), wanted);
}

TEST(Sse, OwnEventsComeBack) {
  const std::string text =
      sse_data("one\n\ntwo") + std::string(kSsePing) + sse_error("{}") + std::string(kSseDone);
  EXPECT_EQ(parse(text, 3), (Events{{"", "one\n\ntwo"}, {"error", "{}"}, {"", "[DONE]"}}));
}

}  // namespace
}  // namespace strata::net
