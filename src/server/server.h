#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "net/http_server.h"
#include "server/api_keys.h"
#include "server/model_set.h"

namespace strata::server {

struct ServerSettings {
  net::ServerOptions http;
  std::vector<ApiKey> api_keys;      // empty: everybody may call
  std::vector<ApiKey> admin_keys;    // empty: nobody may use /admin
  std::filesystem::path model_root;  // what /admin may load lies below
  ModelSettings models;
  std::string cors_origin;  // empty: no CORS
  bool lenient = false;     // unknown fields are ignored and named in X-Strata-Ignored
  double drain_timeout_seconds = 30;
};

struct ServerState;

// The HTTP API over one or several engines. Listens from construction on; until set_models() what
// needs a model is answered with 503.
class Server {
 public:
  explicit Server(ServerSettings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void set_models(std::vector<ServedModel> models);  // once; ready from then on
  uint16_t port() const;
  // Ready turns false, new requests get 503; returns when the running ones ended or the drain
  // time-out passed.
  void drain();

 private:
  std::unique_ptr<ServerState> state_;
  std::unique_ptr<net::HttpServer> http_;  // after state_: its handler uses it
};

}  // namespace strata::server
