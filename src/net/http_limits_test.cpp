// Sizes, time-outs, counts.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "net/http_server.h"
#include "net/test_peer.h"

namespace strata::net {
namespace {

void answer_size(const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({200, {}, "size=" + std::to_string(exchange->request().body.size()) + ";"});
}

std::unique_ptr<HttpServer> start(const ServerOptions& options) {
  return HttpServer::start(options, answer_size, test_error_body);
}

TEST(HttpLimits, BodiesAndHeads) {
  ServerOptions options = test_options();
  options.max_body_bytes = 1'000'000;
  options.max_header_bytes = 8'000;
  const auto server = start(options);
  const auto ask = [&](const std::string& text) {
    RawPeer peer(server->port());
    peer.send(text);
    return status_of(peer.read_until("}"));
  };
  const auto post = [](size_t bytes) {
    return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
           std::string(bytes, 'x');
  };
  {
    RawPeer peer(server->port());
    peer.send(post(1'000'000));
    EXPECT_EQ(status_of(peer.read_until("size=1000000;")), 200);
  }
  // The answer arrives although the client goes on sending what nobody reads.
  EXPECT_EQ(ask(post(20'000'000)), 413);
  EXPECT_EQ(ask("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFF\r\n" +
                std::string(5'000'000, 'x')),
            413);
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(9'000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nX: " + std::string(1'000'000, 'x')), 431);
}

TEST(HttpLimits, Continue) {
  ServerOptions options = test_options();
  options.max_body_bytes = 100;
  const auto server = start(options);
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: ";
  RawPeer peer(server->port());
  peer.send(head + "5\r\n\r\n");
  EXPECT_EQ(peer.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.forget();
  peer.send("01234");
  EXPECT_EQ(status_of(peer.read_until("size=5;")), 200);
  peer.forget();
  peer.send(head + "101\r\n\r\n");  // refused before the body is sent
  EXPECT_EQ(status_of(peer.read_to_end()), 413);
}

TEST(HttpLimits, SlowSenders) {
  ServerOptions options = test_options();
  options.header_timeout_ms = 150;
  options.body_timeout_ms = 150;
  options.idle_timeout_ms = 300;
  const auto server = start(options);
  RawPeer idle(server->port());
  RawPeer head(server->port());
  RawPeer body(server->port());
  RawPeer steady(server->port());
  // One byte every 20 ms is too slow for a head but is progress for a body.
  const std::string_view text = "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: aaaaaaaaaaaaaaaaaaaa";
  body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nabc");
  steady.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n");
  for (size_t i = 0; i < 20; ++i) {
    head.send(text.substr(i, 1));
    steady.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(status_of(head.read_to_end()), 400);
  EXPECT_EQ(status_of(body.read_to_end()), 400);
  EXPECT_EQ(status_of(steady.read_until("size=20;")), 200);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.ended());
}

TEST(HttpLimits, BodiesThatEndEarly) {
  const auto server = start(test_options());
  RawPeer peer(server->port());
  peer.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nabc");
  peer.shutdown_send();
  EXPECT_EQ(status_of(peer.read_to_end()), 400);
}

TEST(HttpLimits, Connections) {
  ServerOptions options = test_options();
  options.max_connections = 2;
  const auto server = start(options);
  RawPeer a(server->port());
  RawPeer b(server->port());
  ASSERT_TRUE(eventually([&] { return server->open_connections() == 2; }));
  RawPeer c(server->port());
  const std::string answer = c.read_to_end();
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_NE(answer.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  a.close();
  ASSERT_TRUE(eventually([&] { return server->open_connections() == 1; }));
  RawPeer d(server->port());
  d.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(status_of(d.read_until("size=0;")), 200);
}

TEST(HttpLimits, MemoryOfAllBodies) {
  ServerOptions options = test_options();
  options.max_buffered_bytes = 1'500;
  const auto server = start(options);
  const std::string request =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n" + std::string(1'000, 'x');
  RawPeer first(server->port());
  first.send(request);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  RawPeer second(server->port());
  second.send(request);
  EXPECT_EQ(status_of(second.read_to_end()), 503);
  first.send("x");
  EXPECT_EQ(status_of(first.read_until("size=1001;")), 200);
  RawPeer third(server->port());  // what the first held is free again
  third.send(request + "x");
  EXPECT_EQ(status_of(third.read_until("size=1001;")), 200);
}

}  // namespace
}  // namespace strata::net
