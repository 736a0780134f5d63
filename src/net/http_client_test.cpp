#include "net/http_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/error.h"
#include "net/sse.h"
#include "net/test_peer.h"

namespace strata::net {
namespace {

TEST(HttpClient, AsksAndKeepsTheConnection) {
  const auto server = HttpServer::start(
      test_options(),
      [](std::shared_ptr<Exchange> e) {
        const Request& r = e->request();
        e->respond({r.path == "/no" ? 404 : 200,
                    {{"X-Echo", std::string(r.header("x-in"))}},
                    r.method + r.body});
      },
      test_error_body);
  HttpClient client({.host = "localhost", .port = server->port()});
  const ClientResponse a = client.post("/a", "body", {{"X-In", "v"}});
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.body, "POSTbody");
  EXPECT_EQ(a.header("x-echo"), "v");
  EXPECT_EQ(client.get("/no").status, 404);
  EXPECT_EQ(client.request("HEAD", "/", "", {}).body, "");
  EXPECT_EQ(client.requests_on_connection(), 3);
}

TEST(HttpClient, OpensAgainWhatTheServerClosed) {
  ServerOptions options = test_options();
  options.idle_timeout_ms = 50;
  const auto server = HttpServer::start(
      options,
      [](std::shared_ptr<Exchange> e) {
        e->respond({200, {}, "x"});
      },
      test_error_body);
  HttpClient client({.port = server->port()});
  EXPECT_EQ(client.get("/").body, "x");
  ASSERT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  EXPECT_EQ(client.get("/").body, "x");
  EXPECT_EQ(client.requests_on_connection(), 1);
}

TEST(HttpClient, ReadsStreamsAsTheyArrive) {
  std::atomic<int> gone{0};
  HttpServer* s = nullptr;
  const auto server = HttpServer::start(
      test_options(),
      [&](std::shared_ptr<Exchange> e) {
        e->begin_stream(200, {{"Content-Type", "text/event-stream"}});
        e->on_client_gone([&] { ++gone; });
        e->write(sse_data("1"));
        if (e->request().path == "/endless") {
          // Held by the timer only: ends with the server.
          s->post_after(60'000, [e] { e->end_stream(); });
          return;
        }
        s->post_after(20, [e] {
          e->write(std::string(kSsePing) + sse_data("2") + std::string(kSseDone));
          e->end_stream();
        });
      },
      test_error_body);
  s = server.get();
  HttpClient client({.port = server->port()});
  std::string seen;
  SseParser parser;
  const auto collect = [&](const ClientResponse& r, std::string_view bytes) {
    EXPECT_EQ(r.header("content-type"), "text/event-stream");
    parser.feed(bytes, [&](const SseEvent& e) { seen += e.data + ","; });
    return true;
  };
  client.request("POST", "/", "{}", {}, collect);
  EXPECT_EQ(seen, "1,2,[DONE],");
  EXPECT_EQ(client.requests_on_connection(), 1);
  // Stopping in the middle closes the connection, which the server sees.
  client.request("POST", "/endless", "{}", {},
                 [](const ClientResponse&, std::string_view) { return false; });
  EXPECT_EQ(client.requests_on_connection(), 0);
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
}

TEST(HttpClient, Faults) {
  std::shared_ptr<Exchange> kept;
  const auto server = HttpServer::start(
      test_options(), [&](std::shared_ptr<Exchange> e) { kept = e; }, test_error_body);
  const uint16_t port = server->port();
  HttpClient slow({.port = port, .io_timeout_ms = 50});
  try {
    slow.get("/");
    FAIL() << "no time-out";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
  server->stop();
  kept.reset();
  HttpClient none({.port = port});
  try {
    none.get("/");
    FAIL() << "connected to nothing";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_found);
  }
}

TEST(HttpClient, BaseUrls) {
  const ClientOptions a = parse_base_url("http://localhost:8080/v1");
  EXPECT_EQ(a.host, "localhost");
  EXPECT_EQ(a.port, 8080);
  EXPECT_FALSE(a.tls);
  const ClientOptions b = parse_base_url("https://[::1]");
  EXPECT_EQ(b.host, "::1");
  EXPECT_EQ(b.port, 443);
  EXPECT_TRUE(b.tls);
  for (const char* bad : {"", "localhost:80", "http://", "http://h:", "http://h:0",
                          "http://h:65536", "http://[::1", "http://h:8x"}) {
    EXPECT_THROW(parse_base_url(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace strata::net
