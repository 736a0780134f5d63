// What happens when the client goes away (or does not read) while its answer is made.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "net/http_server.h"
#include "net/test_peer.h"

namespace strata::net {
namespace {

// Holds the exchange of the last request and counts the calls of on_client_gone.
struct Holder {
  std::mutex mutex;
  std::shared_ptr<Exchange> exchange;
  std::atomic<int> requests{0};
  std::atomic<int> gone{0};
  bool stream = false;

  HttpServer::Handler handler() {
    return [this](std::shared_ptr<Exchange> e) {
      if (stream) e->begin_stream(200, {});
      e->on_client_gone([this] { ++gone; });
      const std::lock_guard<std::mutex> lock(mutex);
      exchange = std::move(e);
      ++requests;
    };
  }
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

class ClientGone : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WholeAndStream, ClientGone, ::testing::Bool());

TEST_P(ClientGone, IsSeenAtOnce) {
  Holder holder;
  holder.stream = GetParam();
  const auto server = HttpServer::start(test_options(), holder.handler(), test_error_body);
  {
    RawPeer peer(server->port());
    peer.send(kGet);
    ASSERT_TRUE(eventually([&] { return holder.requests == 1; }));
    EXPECT_FALSE(holder.exchange->client_gone());
    EXPECT_EQ(holder.gone, 0);
  }
  EXPECT_TRUE(eventually([&] { return holder.gone == 1; }));
  EXPECT_TRUE(holder.exchange->client_gone());
  if (!holder.stream) holder.exchange->respond({200, {}, "nobody reads this"});
  if (holder.stream) {
    holder.exchange->write("nor this");
    holder.exchange->end_stream();
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  EXPECT_EQ(holder.gone, 1);
}

TEST_P(ClientGone, IsSeenBehindPipelinedRequests) {
  Holder holder;
  holder.stream = GetParam();
  const auto server = HttpServer::start(test_options(), holder.handler(), test_error_body);
  {
    RawPeer peer(server->port());
    for (int i = 0; i < 100; ++i) peer.send(kGet);
    ASSERT_TRUE(eventually([&] { return holder.requests == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(holder.gone, 0);  // more bytes are no end
  }
  EXPECT_TRUE(eventually([&] { return holder.gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  EXPECT_EQ(holder.requests, 1);
}

TEST_P(ClientGone, IsSeenByTheMidstOfManyRounds) {
  Holder holder;
  holder.stream = GetParam();
  const auto server = HttpServer::start(test_options(), holder.handler(), test_error_body);
  for (int round = 1; round <= 100; ++round) {
    {
      RawPeer peer(server->port());
      peer.send(kGet);
      ASSERT_TRUE(eventually([&] { return holder.requests == round; }));
      if (holder.stream && round % 2 == 0) holder.exchange->write("some");
    }
    ASSERT_TRUE(eventually([&] { return holder.gone == round; })) << round;
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(ClientGoneTest, NotAfterACompleteAnswer) {
  Holder holder;
  const auto server = HttpServer::start(test_options(), holder.handler(), test_error_body);
  {
    RawPeer peer(server->port());
    peer.send(kGet);
    ASSERT_TRUE(eventually([&] { return holder.requests == 1; }));
    holder.exchange->respond({200, {}, "done"});
    EXPECT_EQ(status_of(peer.read_until("done")), 200);
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  EXPECT_EQ(holder.gone, 0);
}

TEST(ClientGoneTest, CallbackThatHoldsTheExchangeDoesNotKeepItForEver) {
  std::weak_ptr<Exchange> weak;
  std::atomic<bool> answered{false};
  const auto server = HttpServer::start(
      test_options(),
      [&](std::shared_ptr<Exchange> e) {
        weak = e;
        e->on_client_gone([e] {});
        e->respond({200, {}, "x"});
        answered = true;
      },
      test_error_body);
  RawPeer peer(server->port());
  peer.send(kGet);
  peer.read_until("x");
  ASSERT_TRUE(answered);
  EXPECT_TRUE(eventually([&] { return weak.expired(); }));
}

TEST(ClientGoneTest, AClientThatDoesNotRead) {
  Holder holder;
  holder.stream = true;
  ServerOptions options = test_options();
  options.write_timeout_ms = 200;
  const auto server = HttpServer::start(options, holder.handler(), test_error_body);
  RawPeer peer(server->port());
  peer.send(kGet);
  ASSERT_TRUE(eventually([&] { return holder.requests == 1; }));
  // More than the socket buffers of both sides take.
  size_t most_queued = 0;
  for (int i = 0; i < 64; ++i) {
    holder.exchange->write(std::string(1u << 20, 'x'));
    most_queued = std::max(most_queued, holder.exchange->queued_bytes());
  }
  EXPECT_GT(most_queued, 0u);
  EXPECT_TRUE(eventually([&] { return holder.gone == 1; }));
  EXPECT_EQ(holder.exchange->queued_bytes(), 0u);
  holder.exchange->end_stream();
}

TEST(ClientGoneTest, ASlowReaderGetsEverything) {
  Holder holder;
  holder.stream = true;
  const auto server = HttpServer::start(test_options(), holder.handler(), test_error_body);
  RawPeer peer(server->port());
  peer.send(kGet);
  ASSERT_TRUE(eventually([&] { return holder.requests == 1; }));
  for (int i = 0; i < 16; ++i) holder.exchange->write(std::string(1u << 20, 'x'));
  holder.exchange->end_stream();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::string answer = peer.read_until("0\r\n\r\n");
  EXPECT_EQ(count_of(answer, "x"), 16u << 20);
  EXPECT_TRUE(eventually([&] { return holder.exchange->queued_bytes() == 0; }));
}

}  // namespace
}  // namespace strata::net
