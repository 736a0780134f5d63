#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "net/http_server.h"
#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/fields.h"
#include "server/metrics.h"

namespace strata::server {

struct EmbeddingAsk {
  GenerationRequest base;  // all but the input
  std::vector<Prompt> inputs;
  bool base64 = false;
};

EmbeddingAsk read_embedding(const RequestFields& fields, const Engine& engine,
                            const Caller& caller);

// Little-endian f32 values as base64 (RFC 4648).
std::string base64_floats(const std::vector<float>& values);

// One /v1/embeddings request while it is answered; embeddings come back in the order of the inputs.
class EmbeddingCall : public std::enable_shared_from_this<EmbeddingCall> {
 public:
  EmbeddingCall(std::shared_ptr<net::Exchange> exchange, std::shared_ptr<Engine> engine,
                Metrics& metrics, std::string model, net::Headers headers);
  void start(EmbeddingAsk ask);  // throws ApiError when it cannot run

 private:
  class Sink;
  Submit submit_next(size_t input);
  void on_done(size_t input, std::vector<float> embedding, FinishReason how);
  void on_client_gone();
  void finish();
  static ApiError fault(Outcome outcome);

  const std::shared_ptr<net::Exchange> exchange_;
  const std::shared_ptr<Engine> engine_;
  Metrics& metrics_;
  const std::string model_;
  const net::Headers headers_;
  EmbeddingAsk ask_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::vector<uint64_t> request_ids_;
  std::vector<std::vector<float>> embeddings_;
  size_t submitted_ = 0;
  size_t done_ = 0;
  bool failed_ = false;
  bool cancelled_ = false;
  bool timed_out_ = false;
  bool gone_ = false;
};

}  // namespace strata::server
