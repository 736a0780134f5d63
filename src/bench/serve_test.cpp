#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "bench/serve_report.h"
#include "bench/statistics.h"
#include "net/http_server.h"
#include "net/sse.h"

namespace strata {
namespace {

class Folder {
 public:
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("strata_serve_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Percentile, IsTheNearestRank) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile(values, 0.5), 5);
  EXPECT_EQ(percentile(values, 0.9), 9);
  EXPECT_EQ(percentile(values, 0.99), 10);
  EXPECT_EQ(percentile(values, 0), 1);
  EXPECT_TRUE(std::isnan(percentile({}, 0.5)));
}

TEST(ServePlan, PoissonArrivalsAreExponential) {
  const std::vector<PlannedCall> plan = poisson_plan(20'000, 4, 10, 5, 3);
  ASSERT_EQ(plan.size(), 20'000u);
  double sum = 0, squares = 0;
  for (size_t i = 1; i < plan.size(); ++i) {
    const double gap = plan[i].at_seconds - plan[i - 1].at_seconds;
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double n = static_cast<double>(plan.size() - 1);
  // Mean and deviation of an exponential distribution are both 1 / rate; 5 standard errors.
  EXPECT_NEAR(sum / n, 0.25, 5 * 0.25 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n - sum / n * (sum / n)), 0.25, 0.02);
}

TEST(ServePlan, ReadsATrace) {
  const Folder folder;
  const auto path = folder.path / "trace.csv";
  std::ofstream(path) << "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                         "2023-11-16 23:59:59.5000000,374,44\r\n"
                         "2023-11-17 00:00:01.2500000,4000,109\n"
                         "2023-11-17 00:00:00.0000000,1,1\n";
  std::vector<PlannedCall> plan = read_trace(path, {});
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].at_seconds, 0);
  EXPECT_NEAR(plan[1].at_seconds, 0.5, 1e-6);  // in order of time
  EXPECT_NEAR(plan[2].at_seconds, 1.75, 1e-6);
  EXPECT_EQ(plan[2].prompt_tokens, 4000);
  plan = read_trace(path, {.time_scale = 0.5, .length_scale = 4, .most_prompt = 100, .count = 1});
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].prompt_tokens, 94);
  EXPECT_EQ(plan[0].output_tokens, 11);
  EXPECT_EQ(read_trace(path, {.time_scale = 0.5, .first = 1})[1].at_seconds, 2.5);
  for (const char* bad : {"2023-11-16 23:59:59,1", "2023-13-16 23:59:59,1,1", "x,1,1",
                          "2023-11-16 23:59:59,-1,1", "2023-11-16 23:59:59,1,1x"}) {
    std::ofstream(path) << "h\n" << bad << "\n";
    try {
      read_trace(path, {});
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::data_corrupt);
      EXPECT_NE(std::string(e.what()).find(":2:"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(read_trace(folder.path / "none", {}), Error);
}

TEST(ServeClient, PromptsShareTheirFirstWordsOnly) {
  const std::string a = prompt_text(1, 0, 20, 8), b = prompt_text(1, 1, 20, 8);
  EXPECT_EQ(a, prompt_text(1, 0, 20, 8));
  EXPECT_NE(a, b);
  EXPECT_EQ(std::count(a.begin(), a.end(), ' '), 19);
  const auto first = [](const std::string& text, int words) {
    size_t end = 0;
    for (int i = 0; i < words; ++i) end = text.find(' ', end + 1);
    return text.substr(0, end);
  };
  EXPECT_EQ(first(a, 8), first(b, 8));
  EXPECT_NE(first(a, 12), first(b, 12));
}

// A server that answers every third call with 429 and ends every fourth stream early.
TEST(ServeClient, RecordsWhatBecameOfEachCall) {
  std::atomic<int> calls{0};
  net::ServerOptions options;
  options.host = "127.0.0.1";
  options.port = 0;
  const auto server = net::HttpServer::start(
      options,
      [&](std::shared_ptr<net::Exchange> exchange) {
        const int number = calls++;
        const Json body = parse_json(exchange->request().body);
        EXPECT_EQ(body["stream"], true);
        EXPECT_EQ(body["max_tokens"], 3);
        EXPECT_EQ(exchange->request().header("Authorization"), "Bearer k");
        if (number % 4 == 2) {
          net::Response response;
          response.status = 429;
          response.body = R"({"error":{"message":"full"}})";
          exchange->respond(std::move(response));
          return;
        }
        exchange->begin_stream(200, {{"Content-Type", "text/event-stream"}});
        for (const char* text : {"a", "b", "c"}) {
          OrderedJson frame;
          frame["choices"] = {{{"index", 0}, {"text", text}}};
          exchange->write(net::sse_data(to_json_text(frame)));
        }
        exchange->write(net::sse_data(
            R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}})"));
        if (number % 4 != 3) exchange->write(std::string(net::kSseDone));
        exchange->end_stream();
      },
      [](int, std::string_view) { return std::string(); });
  for (const int clients : {0, 3}) {
    calls = 0;
    ServeClientOptions call_options;
    call_options.url = "http://127.0.0.1:" + std::to_string(server->port());
    call_options.model = "m";
    call_options.api_key = "k";
    call_options.clients = clients;
    std::vector<PlannedCall> plan = poisson_plan(16, 1000, 5, 3, 1);
    const std::vector<CallRecord> records = run_calls(plan, call_options);
    const ServeSummary s = summarize_calls(records, {});
    EXPECT_EQ(s.calls, 16);
    EXPECT_EQ(s.completed, 8);
    EXPECT_EQ(s.errors, (std::map<std::string, int64_t>{{"429", 4}, {"broken stream", 4}}));
    EXPECT_EQ(s.prompt_tokens, 8 * 7);
    EXPECT_EQ(s.cached_tokens, 8 * 2);
    EXPECT_EQ(s.output_tokens, 8 * 3);
    EXPECT_EQ(s.good, 8);
    for (const CallRecord& r : records) {
      EXPECT_LE(r.sent, r.ended);
      if (r.error.empty()) {
        EXPECT_EQ(r.chunks.size(), 3u);
      }
    }
  }
}

TEST(ServeClient, ASilentAddressIsAnError) {
  ServeClientOptions options;
  options.url = "http://127.0.0.1:1";
  options.model = "m";
  options.clients = 1;
  const ServeSummary s = summarize_calls(run_calls({{0, 1, 1}}, options), {});
  EXPECT_EQ(s.completed, 0);
  EXPECT_EQ(s.errors.at("no answer"), 1);
}

// By hand: two calls of 0..2 s and 1..4 s, the second with a gap of 2 s; one that failed.
TEST(ServeReport, AddsUp) {
  std::vector<CallRecord> calls(3);
  calls[0] = {.sent = 0,
              .ended = 2,
              .chunks = {0.5, 1, 2},
              .status = 200,
              .error = "",
              .prompt_tokens = 10,
              .output_tokens = 3};
  calls[1] = {.sent = 1,
              .ended = 4,
              .chunks = {2, 4},
              .status = 200,
              .error = "",
              .prompt_tokens = 20,
              .output_tokens = 2};
  calls[2] = {.sent = 1, .ended = 1.5, .chunks = {}, .status = 503, .error = "status 503, \"x\""};
  const ServeLimits limits{.ttft_seconds = 2, .gap_seconds = 1};
  const ServeSummary s = summarize_calls(calls, limits);
  EXPECT_EQ(s.seconds, 4);
  EXPECT_EQ(s.good, 1);
  EXPECT_EQ(s.ttft.p50, 0.5);
  EXPECT_EQ(s.ttft.most, 1);
  EXPECT_EQ(s.gap.p50, 1);
  EXPECT_EQ(s.gap.most, 2);
  EXPECT_EQ(s.mean_running, 5.5 / 4);
  const OrderedJson json = summary_json(s, limits);
  EXPECT_EQ(json["output_tokens_per_second"], 5.0 / 4);
  EXPECT_EQ(json["errors"]["503"], 1);
  const Folder folder;
  write_serve_report(folder.path / "out", {{"url", "u"}}, std::vector<PlannedCall>(3), calls,
                     limits);
  const std::string csv = text_of(folder.path / "out" / "calls.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_NE(csv.find(R"(,503,0,0,0,0,0.000000,"status 503, ""x""")"), std::string::npos) << csv;
  EXPECT_EQ(parse_json(text_of(folder.path / "out" / "load_test_results.json"))["summary"]["good"],
            1);
  EXPECT_GT(std::filesystem::file_size(folder.path / "out" / "latency_cdf.png"), 1000u);
  EXPECT_GT(std::filesystem::file_size(folder.path / "out" / "throughput.png"), 1000u);
}

}  // namespace
}  // namespace strata
