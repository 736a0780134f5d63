#include "net/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net/http_client.h"
#include "net/test_peer.h"

namespace strata::net {
namespace {

// Answers with what it was asked: "METHOD PATH BODY".
void echo(const std::shared_ptr<Exchange>& exchange) {
  const Request& r = exchange->request();
  exchange->respond(
      {200, {{"Content-Type", "text/plain"}}, r.method + " " + r.path + " " + r.body});
}

std::unique_ptr<HttpServer> start(HttpServer::Handler handler, ServerOptions o = test_options()) {
  return HttpServer::start(o, std::move(handler), test_error_body);
}

TEST(HttpServer, KeepsConnectionsAlive) {
  const auto server = start(echo);
  RawPeer peer(server->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(peer.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    const std::string answer = peer.read_until("POST /a hi");
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_NE(answer.find("\r\nContent-Length: 10\r\n"), std::string::npos);
    EXPECT_NE(answer.find("\r\nDate: "), std::string::npos);
    EXPECT_EQ(answer.find("Connection:"), std::string::npos);
    peer.forget();
  }
  EXPECT_EQ(server->open_connections(), 1u);
  peer.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_NE(peer.read_to_end().find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_TRUE(peer.ended());
  peer.close();
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  // The first answer is the last to be ready.
  std::vector<std::shared_ptr<Exchange>> waiting;
  std::mutex mutex;
  HttpServer* s = nullptr;
  const auto server = start([&](std::shared_ptr<Exchange> e) {
    if (e->request().path == "/0") {
      s->post_after(50, [e] { echo(e); });
    } else {
      echo(e);
    }
  });
  s = server.get();
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
  }
  RawPeer peer(server->port());
  peer.send(all);
  const std::string answer = peer.read_until("GET /19 ");
  size_t at = 0;
  for (int i = 0; i < 20; ++i) {
    at = answer.find("GET /" + std::to_string(i) + " ", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_EQ(count_of(answer, "HTTP/1.1 200"), 20u);
}

TEST(HttpServer, RequestsTornIntoBytes) {
  const auto server = start(echo);
  RawPeer peer(server->port());
  for (const char c :
       std::string_view("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                        "\r\n3\r\nabc\r\n0\r\n\r\n")) {
    ASSERT_TRUE(peer.send(std::string_view(&c, 1)));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(status_of(peer.read_until("POST /x abc")), 200);
}

TEST(HttpServer, MalformedRequestsGetAJsonError) {
  const auto server = start(echo);
  for (const std::string_view text :
       {"GET /%ff HTTP/1.1\r\nHost: h\r\n\r\n", "nonsense\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    RawPeer peer(server->port());
    peer.send(text);
    const std::string answer = peer.read_to_end();
    EXPECT_EQ(status_of(answer), 400) << answer;
    EXPECT_NE(answer.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
    EXPECT_NE(answer.find("{\"error\":{\"status\":400"), std::string::npos);
    EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  }
}

TEST(HttpServer, HeadHasNoBody) {
  const auto server = start(echo);
  RawPeer peer(server->port());
  peer.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = peer.read_until("GET /b ");
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos);  // of "GET /a "
  EXPECT_EQ(answer.find("GET /a "), std::string::npos);
}

TEST(HttpServer, StreamsAreChunked) {
  const auto server = start([](std::shared_ptr<Exchange> e) {
    e->begin_stream(200, {{"Content-Type", "text/event-stream"}});
    e->write("data: 1\n\n");
    e->write("data: 2\n\n");
    e->write("");
    e->end_stream();
  });
  RawPeer peer(server->port());
  peer.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = peer.read_until("0\r\n\r\n");
  // Both writes were queued together: one chunk of 18 bytes.
  EXPECT_NE(answer.find("\r\nTransfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\n12\r\ndata: 1\n\ndata: 2\n\n\r\n0\r\n\r\n"), std::string::npos)
      << answer;
  // HTTP/1.0 knows no chunks: the end of the connection is the end of the stream.
  RawPeer old(server->port());
  old.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string plain = old.read_to_end();
  EXPECT_EQ(plain.find("chunked"), std::string::npos);
  EXPECT_NE(plain.find("\r\n\r\ndata: 1\n\ndata: 2\n\n"), std::string::npos);
}

TEST(HttpServer, HandlersThatFailAnswer500) {
  std::shared_ptr<Exchange> kept;
  std::mutex mutex;
  const auto server = start([&](std::shared_ptr<Exchange> e) {
    const std::string path = e->request().path;
    if (path == "/throw") throw std::runtime_error("secret");
    if (path == "/cut") {
      e->begin_stream(200, {});
      e->write("part");
    }
  });
  HttpClient client({.port = server->port()});
  for (const char* path : {"/throw", "/drop"}) {
    const ClientResponse r = client.get(path);
    EXPECT_EQ(r.status, 500);
    EXPECT_NE(r.body.find("\"status\":500"), std::string::npos);
    EXPECT_EQ(r.body.find("secret"), std::string::npos);
  }
  EXPECT_EQ(client.requests_on_connection(), 2);
  // A stream dropped in the middle has no last chunk, so the client can tell.
  RawPeer peer(server->port());
  peer.send("GET /cut HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = peer.read_to_end();
  EXPECT_NE(answer.find("4\r\npart\r\n"), std::string::npos);
  EXPECT_EQ(answer.find("0\r\n\r\n"), std::string::npos);
}

TEST(HttpServer, ManyStreamsOfManySmallWrites) {
  // 50 clients, 4 makers writing from their own threads: nothing lost, nothing out of order.
  constexpr int kClients = 50;
  constexpr int kWrites = 1'000;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  const auto server = start([&](std::shared_ptr<Exchange> e) {
    e->begin_stream(200, {});
    const std::lock_guard<std::mutex> lock(mutex);
    exchanges.push_back(std::move(e));
  });
  std::string wanted;
  for (int i = 0; i < kWrites; ++i) wanted += std::to_string(i) + "\n";
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&] {
      HttpClient client({.port = server->port()});
      if (client.get("/").body == wanted) ++right;
    });
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return exchanges.size() == kClients;
  }));
  std::vector<std::thread> makers;
  for (int m = 0; m < 4; ++m) {
    makers.emplace_back([&, m] {
      for (int i = 0; i < kWrites; ++i) {
        for (int c = m; c < kClients; c += 4) exchanges[c]->write(std::to_string(i) + "\n");
      }
      for (int c = m; c < kClients; c += 4) exchanges[c]->end_stream();
    });
  }
  for (std::thread& t : makers) t.join();
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(right, kClients);
  exchanges.clear();
}

TEST(HttpServer, FiveHundredConnections) {
  const auto server = start(echo);
  std::vector<RawPeer> peers;
  peers.reserve(500);
  for (int i = 0; i < 500; ++i) {
    peers.emplace_back(server->port());
    ASSERT_TRUE(peers.back().connected());
    peers.back().send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n");
  }
  for (RawPeer& peer : peers) peer.send("\r\n");
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(status_of(peers[i].read_until("GET /" + std::to_string(i) + " ")), 200);
  }
  EXPECT_EQ(server->open_connections(), 500u);
  peers.clear();
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(HttpServer, StopWhileStreaming) {
  std::shared_ptr<Exchange> kept;
  std::atomic<bool> begun{false};
  std::atomic<int> gone{0};
  auto server = start([&](std::shared_ptr<Exchange> e) {
    e->begin_stream(200, {});
    e->write("x");
    e->on_client_gone([&] { ++gone; });
    kept = e;
    begun = true;
  });
  RawPeer peer(server->port());
  peer.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  peer.read_until("x");
  ASSERT_TRUE(begun);
  bool ran = false;
  server->post_after(60'000, [&] { ran = true; });
  server->stop();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(kept->client_gone());
  EXPECT_EQ(peer.read_to_end().find("0\r\n\r\n"), std::string::npos);
  server->post([&] { ran = true; });
  server.reset();
  // The exchange outlives the server; nothing happens any more.
  kept->write("y");
  EXPECT_EQ(kept->queued_bytes(), 0u);
  kept->on_client_gone([&] { ++gone; });
  EXPECT_EQ(gone, 2);
  kept->end_stream();
  kept.reset();
  EXPECT_FALSE(ran);
}

TEST(HttpServer, StopAcceptingLetsAnswersFinish) {
  std::shared_ptr<Exchange> kept;
  std::atomic<bool> held{false};
  const auto server = start([&](std::shared_ptr<Exchange> e) {
    kept = e;
    held = true;
  });
  RawPeer idle(server->port());
  RawPeer busy(server->port());
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return held.load() && server->open_connections() == 2; }));
  server->stop_accepting();
  EXPECT_EQ(idle.read_to_end(), "");
  kept->respond({200, {}, "late"});
  kept.reset();
  const std::string answer = busy.read_to_end();
  EXPECT_NE(answer.find("late"), std::string::npos);
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_FALSE(RawPeer(server->port()).connected());
}

TEST(HttpServer, PostsAndTimers) {
  const auto server = start(echo);
  std::mutex mutex;
  std::vector<int> order;
  const auto add = [&](int i) {
    return [&, i] {
      const std::lock_guard<std::mutex> lock(mutex);
      order.push_back(i);
    };
  };
  server->post_after(60, add(3));
  server->post_after(20, add(2));
  server->post([] { throw std::runtime_error("a function that fails harms nobody"); });
  server->post(add(1));
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return order.size() == 3;
  }));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(HttpServer, Addresses) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0", "::"}) {
    ServerOptions options = test_options();
    options.host = host;
    try {
      const auto server = start(echo, options);
      EXPECT_TRUE(RawPeer(server->port()).connected()) << host;
      ServerOptions same = options;
      same.port = server->port();
      EXPECT_THROW(start(echo, same), Error) << host;
    } catch (const Error& e) {
      if (std::string_view(host) != "::") throw;
      GTEST_LOG_(INFO) << "no IPv6 on this machine: " << e.what();
    }
  }
  ServerOptions options = test_options();
  options.host = "no.such.host.invalid";
  EXPECT_THROW(start(echo, options), Error);
}

TEST(HttpServer, AnswersWhileAllCoresCompute) {
  const auto server = start(echo);
  std::atomic<bool> stop{false};
  std::vector<std::thread> burners;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    burners.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  HttpClient client({.port = server->port()});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.get("/").status, 200);
  stop = true;
  for (std::thread& t : burners) t.join();
}

}  // namespace
}  // namespace strata::net
