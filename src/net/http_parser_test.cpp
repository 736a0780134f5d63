#include "net/http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/http_text.h"

namespace strata::net {
namespace {

struct Outcome {
  int refused = 0;  // status
  bool done = false;
  std::string rest;  // not consumed
  Request request;
  bool keep_alive = false;
};

// Feeds `text` in pieces, keeping what is not consumed as a connection does.
Outcome parse(std::string_view text, size_t piece = std::string_view::npos,
              const ParserLimits& limits = {}) {
  RequestParser parser(limits);
  std::string input;
  for (size_t i = 0; i < text.size() && !parser.done() && !parser.failed();) {
    const std::string_view part = text.substr(i, piece);
    i += part.size();
    input += part;
    input.erase(0, parser.consume(input));
    if (parser.done() || parser.failed()) input += text.substr(i);
  }
  Outcome out;
  out.refused = parser.refusal().status;
  out.done = parser.done();
  out.keep_alive = parser.keep_alive();
  out.rest = input;
  out.request = parser.take_request();
  return out;
}

std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n";
}
std::string with_headers(std::string_view headers, std::string_view body = "") {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

TEST(RequestParser, WholeRequest) {
  const Outcome o = parse(
      "POST /v1/x?a=b%20c HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 4\r\nX-A:  b c \t\r\n\r\nbodyGET");
  EXPECT_TRUE(o.done);
  EXPECT_TRUE(o.keep_alive);
  EXPECT_EQ(o.request.method, "POST");
  EXPECT_EQ(o.request.path, "/v1/x");
  EXPECT_EQ(o.request.query, "a=b%20c");
  EXPECT_EQ(o.request.header("x-a"), "b c");
  EXPECT_TRUE(o.request.has_header("HOST"));
  EXPECT_FALSE(o.request.has_header("Hos"));
  EXPECT_EQ(o.request.body, "body");
  EXPECT_EQ(o.rest, "GET");
}

TEST(RequestParser, EveryTearGivesTheSame) {
  const std::string text = with_headers("Transfer-Encoding: Chunked\r\n",
                                        "4;x=\"y\"\r\nWiki\r\n00005\r\npedia\r\nA\r\n0123456789\r\n"
                                        "0\r\nX-Trailer: t\r\nContent-Length: 9\r\n\r\nrest");
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    const Outcome o = parse("\r\n\r\n" + text, piece);
    ASSERT_TRUE(o.done) << piece;
    EXPECT_EQ(o.request.body, "Wikipedia0123456789");
    EXPECT_EQ(o.rest, "rest");
    EXPECT_FALSE(o.request.has_header("x-trailer"));
  }
}

TEST(RequestParser, Targets) {
  EXPECT_EQ(parse(get("/v1/models/org%2Fname")).request.path, "/v1/models/org/name");
  EXPECT_EQ(parse(get("/%C3%A9%e2%82%ac+")).request.path, "/\xC3\xA9\xE2\x82\xAC+");
  EXPECT_EQ(parse(get("http://h:1/p?q")).request.path, "/p");
  EXPECT_EQ(parse(get("HTTP://h?q")).request.path, "/");
  EXPECT_EQ(parse(get("HTTP://h?q")).request.query, "q");
  EXPECT_EQ(parse(get("https://h")).request.path, "/");
  EXPECT_EQ(parse("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").request.path, "*");
  for (const char* bad : {"/%", "/%4", "/%zz", "/%00", "/%C3", "/%ff", "/a\xC3", "/a#b", "a", "*",
                          "ftp://h/", "/a b", "", "h:443"}) {
    EXPECT_EQ(parse(get(bad)).refused, 400) << bad;
  }
}

TEST(RequestParser, HeadAndConnection) {
  const Outcome o = parse("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n");
  EXPECT_EQ(o.request.method, "GET");
  EXPECT_TRUE(o.request.is_head);
  EXPECT_FALSE(o.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse(with_headers("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                                 "HTTP2-Settings: AAMAAABkAAQ\r\n"))
                  .done);
}

TEST(RequestParser, RefusesWhatHasTwoMeanings) {
  const std::vector<std::string> bad = {
      with_headers("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      with_headers("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"),
      with_headers("Content-Length: 4\r\nContent-Length: 4\r\n", "body"),
      with_headers("Content-Length: 4, 4\r\n", "body"),
      with_headers("Content-Length: +4\r\n", "body"),
      with_headers("Content-Length: -1\r\n"),
      with_headers("Content-Length: 0x4\r\n", "body"),
      with_headers("Content-Length:\r\n"),
      with_headers("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
      with_headers("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
      with_headers("Transfer-Encoding: xchunked\r\n"),
      with_headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      with_headers("Transfer-Encoding : chunked\r\n"),
      with_headers(" folded\r\n"),
      with_headers("X: a\r\n\tfolded\r\n"),
      with_headers("X: a\rb\r\n"),
      with_headers("X: a\nY: b\r\n"),
      with_headers(std::string("X: a\0b\r\n", 8)),
      with_headers("X: a\x01\r\n"),
      with_headers("no colon\r\n"),
      with_headers(": empty\r\n"),
      with_headers("H\xC3\xA9: x\r\n"),
      with_headers("Host: b\r\n"),
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
      "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
      "GET /\r\n\r\n",
      "GET / http/1.1\r\nHost: a\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
      " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1\nHost: a\n\n",
      std::string("\x16\x03\x01\x02\x00\x01", 6),  // TLS where it is not spoken
  };
  for (const std::string& text : bad) {
    EXPECT_EQ(parse(text).refused, 400) << text;
    EXPECT_EQ(parse(text, 1).refused, 400) << text;
  }
}

TEST(RequestParser, RefusesBadChunks) {
  for (const char* body : {"\r\n", "x\r\n", "4\nWiki\r\n", "4\r\nWikiX\r\n", "4\r\nWiki\rX",
                           "4 \r\nWiki\r\n", "-1\r\n", "0x4\r\nWiki\r\n", "4;a\x01\r\n",
                           "11111111111111111\r\n", "0\r\nA: \x01\r\n\r\n", "0\r\nA\n\r\n"}) {
    EXPECT_EQ(parse(with_headers("Transfer-Encoding: chunked\r\n", body)).refused, 400) << body;
    EXPECT_EQ(parse(with_headers("Transfer-Encoding: chunked\r\n", body), 1).refused, 400) << body;
  }
  const std::string endless = "1;" + std::string(5'000, 'x');
  EXPECT_EQ(parse(with_headers("Transfer-Encoding: chunked\r\n", endless)).refused, 400);
}

TEST(RequestParser, Limits) {
  ParserLimits limits;
  limits.max_header_bytes = 200;
  limits.max_headers = 3;
  limits.max_body_bytes = 10;
  const auto at = [&](const std::string& text, size_t piece) {
    return parse(text, piece, limits).refused;
  };
  for (const size_t piece : {size_t{1}, size_t{1'000}}) {
    EXPECT_EQ(at(with_headers("X: " + std::string(200, 'a') + "\r\n"), piece), 431);
    EXPECT_EQ(at("GET /" + std::string(1'000, 'a'), piece), 431);
    EXPECT_EQ(at(with_headers("A: 1\r\nB: 1\r\n"), piece), 0);
    EXPECT_EQ(at(with_headers("A: 1\r\nB: 1\r\nC: 1\r\n"), piece), 431);
    EXPECT_EQ(at(with_headers("Content-Length: 10\r\n", "0123456789"), piece), 0);
    EXPECT_EQ(at(with_headers("Content-Length: 11\r\n"), piece), 413);
    EXPECT_EQ(at(with_headers("Content-Length: 18446744073709551616\r\n"), piece), 413);
    const std::string chunked = "Transfer-Encoding: chunked\r\n";
    EXPECT_EQ(at(with_headers(chunked, "A\r\n0123456789\r\n0\r\n\r\n"), piece), 0);
    EXPECT_EQ(at(with_headers(chunked, "A\r\n0123456789\r\n1\r\n"), piece), 413);
    EXPECT_EQ(at(with_headers(chunked, "FFFFFFFFFFFFFFFF\r\n"), piece), 413);
    EXPECT_EQ(at(with_headers(chunked, "0\r\nA: " + std::string(300, 'a')), piece), 431);
  }
  EXPECT_EQ(at(with_headers("Expect: 200-ok\r\n"), 1), 417);
}

TEST(HttpText, Heads) {
  // RFC 9110, section 5.6.7 has this date; 1994-11-06 08:49:37 UTC is 784111777.
  EXPECT_EQ(format_http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  HeadOptions options;
  options.content_length = 3;
  const std::string head = format_head(200, {{"X-A", "b\r\nSet-Cookie: c"}}, options);
  EXPECT_EQ(head.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(head.find("X-A: b  Set-Cookie: c\r\n"), std::string::npos);
  EXPECT_NE(head.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Connection"), std::string::npos);
}

}  // namespace
}  // namespace strata::net
