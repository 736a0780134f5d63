#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/test_peer.h"

namespace strata::net {
namespace {

// A self-signed certificate for 127.0.0.1 and localhost in a folder of its own.
class Certificate {
 public:
  Certificate() {
    std::string name = std::filesystem::temp_directory_path() / "strata-tls-XXXXXX";
    folder_ = mkdtemp(name.data());
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  &EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), &X509_free);
    X509_set_version(cert.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_set_pubkey(cert.get(), key.get());
    X509_NAME* subject = X509_get_subject_name(cert.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("strata test"), -1, -1, 0);
    X509_set_issuer_name(cert.get(), subject);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    X509_add_ext(cert.get(), names, -1);
    X509_EXTENSION_free(names);
    X509_sign(cert.get(), key.get(), EVP_sha256());
    write(key_file(), [&](FILE* f) {
      PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    write(cert_file(), [&](FILE* f) { PEM_write_X509(f, cert.get()); });
  }
  ~Certificate() { std::filesystem::remove_all(folder_); }
  std::string cert_file() const { return folder_ + "/cert.pem"; }
  std::string key_file() const { return folder_ + "/key.pem"; }

 private:
  template <typename F>
  static void write(const std::string& path, F&& body) {
    FILE* file = std::fopen(path.c_str(), "w");
    body(file);
    std::fclose(file);
  }
  std::string folder_;
};

ServerOptions tls_options(const Certificate& certificate) {
  ServerOptions options = test_options();
  options.tls_cert_file = certificate.cert_file();
  options.tls_key_file = certificate.key_file();
  return options;
}

TEST(HttpTls, WholeAnswersAndStreams) {
  const Certificate certificate;
  std::atomic<int> gone{0};
  const auto server = HttpServer::start(
      tls_options(certificate),
      [&](std::shared_ptr<Exchange> e) {
        const std::string& path = e->request().path;
        if (path == "/echo") {
          e->respond({200, {}, e->request().body});
          return;
        }
        e->begin_stream(200, {});
        e->on_client_gone([&, e] { ++gone; });
        for (int i = 0; i < 100; ++i) e->write("data\n");
        if (path == "/stream") e->end_stream();
      },
      test_error_body);
  HttpClient client({.port = server->port(), .tls = true, .ca_file = certificate.cert_file()});
  const std::string big(3'000'000, 'b');
  EXPECT_EQ(client.post("/echo", big).body, big);
  EXPECT_EQ(client.get("/stream").body.size(), 500u);
  EXPECT_EQ(client.requests_on_connection(), 2);
  // Connection: close ends with a TLS notice, which read-to-end clients need.
  EXPECT_EQ(client.request("POST", "/echo", "x", {{"Connection", "close"}}).body, "x");
  // The client goes away in the middle.
  client.request("GET", "/endless", "", {},
                 [](const ClientResponse&, std::string_view) { return false; });
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(HttpTls, RefusesWhatItShould) {
  const Certificate certificate;
  ServerOptions options = tls_options(certificate);
  const auto handler = [](std::shared_ptr<Exchange> e) { e->respond({200, {}, "x"}); };
  const auto server = HttpServer::start(options, handler, test_error_body);
  HttpClient stranger({.port = server->port(), .tls = true});
  EXPECT_THROW(stranger.get("/"), Error);  // not signed by anybody it knows
  HttpClient trusting({.port = server->port(), .tls = true, .verify = false});
  EXPECT_EQ(trusting.get("/").body, "x");
  RawPeer plain(server->port());
  plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(status_of(plain.read_to_end()), 0);
  options.header_timeout_ms = 200;  // on a busy machine too little for a handshake
  const auto hasty = HttpServer::start(options, handler, test_error_body);
  RawPeer silent(hasty->port());  // no handshake: closed in time
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_TRUE(silent.ended());

  options.tls_key_file = "";
  EXPECT_THROW(HttpServer::start(options, {}, test_error_body), Error);
  options.tls_key_file = certificate.cert_file();
  EXPECT_THROW(HttpServer::start(options, {}, test_error_body), Error);
  options.tls_cert_file = "/no/such/file";
  EXPECT_THROW(HttpServer::start(options, {}, test_error_body), Error);
}

TEST(HttpTls, OldVersionsAreRefused) {
  const Certificate certificate;
  const auto server = HttpServer::start(
      tls_options(certificate),
      [](std::shared_ptr<Exchange> e) {
        e->respond({200, {}, "x"});
      },
      test_error_body);
  std::signal(SIGPIPE, SIG_IGN);  // this test writes through OpenSSL's own socket
  for (const auto& [version, wanted] :
       {std::pair{TLS1_1_VERSION, false}, std::pair{TLS1_2_VERSION, true}}) {
    RawPeer peer(server->port());
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SSL_CTX_set_security_level(context.get(), 0);  // lets the client offer old versions
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), version);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
    SSL_set_fd(ssl.get(), peer.fd());
    EXPECT_EQ(SSL_connect(ssl.get()) == 1, wanted) << version;
  }
  std::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace strata::net
