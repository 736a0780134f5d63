// The live page as a browser sees it: files, the whole state, what is added (who is let in:
// tests/e2e/test_train_page.py).
#include "train/live_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace strata {
namespace {

StepReport report_of(int64_t step, int64_t steps = 100) {
  StepReport r;
  r.step = step;
  r.steps = steps;
  r.loss = 3.0 / static_cast<double>(step);
  r.learning_rate = 1e-3;
  r.gradient_norm = 0.5;
  r.tokens = 64 * step;
  r.tokens_per_second = 1000;
  return r;
}

LiveState state_of(const char* out) {
  OrderedJson about;
  about["out"] = out;
  return LiveState(std::move(about));
}

net::HttpClient client_of(const LivePage& page) {
  return net::HttpClient(net::parse_base_url(page.url()));
}

TEST(LivePage, ServesItsFiles) {
  LivePage page(0, state_of("gpt"));
  net::HttpClient client = client_of(page);
  const net::ClientResponse index = client.get("/");
  EXPECT_EQ(index.status, 200);
  EXPECT_EQ(index.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(index.header("Content-Security-Policy").find("default-src 'none'"), std::string::npos);
  // Everything the page names is there.
  for (const char* name : {"/train/page.js", "/train/page.css", "/train/icon.svg"}) {
    EXPECT_NE(index.body.find(name), std::string::npos) << name;
    EXPECT_EQ(client.get(name).status, 200) << name;
  }
  EXPECT_EQ(client.get("/train/charts.js").status, 200);
  EXPECT_EQ(client.get("/train/attention.js").status, 200);
  EXPECT_EQ(client.get("/etc/passwd").status, 404);
  EXPECT_EQ(client.request("DELETE", "/", "", {}).status, 405);
}

TEST(LivePage, EventsBeginWithTheWholeStateAndGoOn) {
  LivePage page(0, state_of("gpt"));
  page.add_step(report_of(1));
  page.add_sample(1, "a \"sample\"\nof two lines");
  std::vector<Json> events;
  std::atomic<int> seen{0};
  std::thread browser([&] {
    net::SseParser parser;
    client_of(page).request("GET", "/events", "", {},
                            [&](const net::ClientResponse&, std::string_view bytes) {
                              parser.feed(bytes, [&](const net::SseEvent& e) {
                                events.push_back(parse_json(e.data));
                                ++seen;
                              });
                              return events.empty() || events.back().at("kind") != "end";
                            });
  });
  const auto wait_for = [&](int count) {
    for (int i = 0; i < 500 && seen < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  wait_for(1);
  StepReport measured = report_of(2);
  measured.validation_loss = 2.5;
  page.add_step(measured);
  wait_for(2);
  page.set_attention({2, {"a", "b"}, {{0, 1, {1000, 0, 400, 600}}}});
  page.end("done");
  wait_for(4);
  browser.join();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].at("kind"), "state");
  EXPECT_EQ(events[0].at("about").at("out"), "gpt");
  EXPECT_EQ(events[0].at("curves").at("loss"), Json::parse("[[1.0, 3.0]]"));
  EXPECT_EQ(events[0].at("samples").at(0).at("text"), "a \"sample\"\nof two lines");
  EXPECT_TRUE(events[0].at("end").is_null());
  EXPECT_EQ(events[1].at("validation_loss"), 2.5);
  EXPECT_EQ(events[2].at("heads").at(0).at("weights"), Json::parse("[1000, 0, 400, 600]"));
  EXPECT_EQ(events[3].at("how"), "done");
}

TEST(LivePage, ATakenPortIsTold) {
  const LivePage page(0, state_of("x"));
  const auto port = static_cast<uint16_t>(net::parse_base_url(page.url()).port);
  EXPECT_THROW(LivePage(port, state_of("x")), Error);
}

TEST(LiveState, CurvesAndSamplesStayBounded) {
  LiveState state = state_of("x");
  for (int64_t step = 1; step <= 50'000; ++step) state.add_step(report_of(step, 50'000));
  for (int i = 0; i < 100; ++i) state.add_sample(i, "text");
  const OrderedJson whole = state.whole();
  const OrderedJson& loss = whole.at("curves").at("loss");
  EXPECT_LE(loss.size(), LiveState::kMostPoints);
  EXPECT_GT(loss.size(), LiveState::kMostPoints / 4);
  EXPECT_EQ(loss.front().at(0), 1);
  EXPECT_GT(loss.back().at(0).get<double>(), 49'900);
  // Points are what they were, evenly spread, in order.
  for (size_t i = 1; i < loss.size(); ++i) {
    EXPECT_GT(loss[i].at(0), loss[i - 1].at(0));
    EXPECT_EQ(loss[i].at(1), 3.0 / loss[i].at(0).get<double>());
  }
  EXPECT_EQ(whole.at("samples").size(), LiveState::kMostSamples);
  EXPECT_EQ(whole.at("samples").back().at("step"), 99);
  EXPECT_TRUE(whole.at("curves").at("validation_loss").empty());
}

}  // namespace
}  // namespace strata
