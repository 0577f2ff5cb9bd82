// TLS with libcurl: verification of the server, and the certificate of the client. The certificates
// are generated for each run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "test/support/api_calls.h"
#include "test/support/curl_world.h"
#include "test/support/scripted_server.h"

namespace mgpu::kube {
namespace {

using namespace std::chrono_literals;
using test::call_and_wait;
using test::config_for;
using test::CurlWorld;
using test::get_of;
using test::header_of;
using test::Peer;
using test::ScriptedServer;
using ::testing::HasSubstr;

// The authorities "ca" and "other". "ca" signs "server" (127.0.0.1 and api.test), "named" (only
// api.test) and "client".
class CurlTls : public ::testing::Test {
 public:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("tls-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    for (const char* name : {"ca", "other"}) {
      run("openssl req -x509 " + new_key(name) + " -days 2 -out " + file(name, ".crt"));
    }
    issue("server", "subjectAltName=IP:127.0.0.1,DNS:api.test");
    issue("named", "subjectAltName=DNS:api.test");
    issue("client", "extendedKeyUsage=clientAuth");
    run("openssl ec -aes128 -passout pass:secret -in " + file("client", ".key") + " -out " +
        file("locked", ".key"));
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static std::string file(const std::string& name, const std::string& ending) {
    return (folder_ / (name + ending)).string();
  }
  static std::string text(const std::string& name, const std::string& ending) {
    std::stringstream text;
    text << std::ifstream(file(name, ending)).rdbuf();
    return text.str();
  }

  static Config presenting_client(const ScriptedServer& server) {
    Config config = config_for(server.port(), "https");
    config.ca.file = file("ca", ".crt");
    config.client_certificate.file = file("client", ".crt");
    config.client_key.file = file("client", ".key");
    return config;
  }
  static ScriptedServer serve(const std::string& name, const std::string& client_ca = "") {
    return ScriptedServer(
        [](Peer& peer) {
          const std::string request = peer.read_request();
          peer.send(test::answer_text(200, header_of(request, "host")));
        },
        {file(name, ".crt"), file(name, ".key"), client_ca});
  }

 private:
  static std::string new_key(const std::string& name) {
    return "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=" + name +
           " -keyout " + file(name, ".key");
  }
  static void issue(const std::string& name, const std::string& extension) {
    std::ofstream(file(name, ".ext")) << extension << "\n";
    run("openssl req " + new_key(name) + " -out " + file(name, ".csr"));
    run("openssl x509 -req -days 2 -CA " + file("ca", ".crt") + " -CAkey " + file("ca", ".key") +
        " -CAcreateserial -in " + file(name, ".csr") + " -extfile " + file(name, ".ext") +
        " -out " + file(name, ".crt"));
  }
  static void run(const std::string& command) {
    ASSERT_EQ(std::system((command + " 2>/dev/null").c_str()), 0) << command;
  }

  static inline std::filesystem::path folder_;
};

TEST_F(CurlTls, TrustsTheGivenAuthorityFromAFileAndFromText) {
  const ScriptedServer server = serve("server");
  Config from_file = config_for(server.port(), "https");
  from_file.ca.file = file("ca", ".crt");
  Config from_text = config_for(server.port(), "https");
  from_text.ca.pem = text("ca", ".crt");
  for (const Config& config : {from_file, from_text}) {
    CurlWorld world(config);
    const Response response = call_and_wait(world.transport(), get_of("/"));
    EXPECT_EQ(response.status, 200) << (response.failure ? response.failure->message : "");
    EXPECT_EQ(response.body, "127.0.0.1:" + std::to_string(server.port()));
  }
}

TEST_F(CurlTls, RefusesAServerThatItCannotVerifyBeforeSendingAnything) {
  struct Case {
    std::string certificate;
    std::string ca;
    std::string server_name;
  };
  for (const Case& each : {Case{"server", "other", ""}, Case{"server", "", ""},
                           Case{"named", "ca", ""}, Case{"server", "ca", "wrong.test"}}) {
    const ScriptedServer server = serve(each.certificate);
    Config config = config_for(server.port(), "https");
    if (!each.ca.empty()) config.ca.file = file(each.ca, ".crt");
    config.tls_server_name = each.server_name;
    CurlWorld world(config);
    const Response response = call_and_wait(world.transport(), get_of("/"));
    ASSERT_TRUE(response.failure) << each.certificate << " " << each.ca;
    EXPECT_FALSE(response.failure->sent);
    EXPECT_THAT(response.failure->message, HasSubstr("certificate"));
  }
}

TEST_F(CurlTls, SkipsVerificationOnlyWhereTheConfigurationSaysSo) {
  const ScriptedServer server = serve("named");
  Config config = config_for(server.port(), "https");
  config.insecure_skip_tls_verify = true;
  CurlWorld world(config);
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 200);
}

TEST_F(CurlTls, PresentsTheCertificateOfACredentialPlugin) {
  const ScriptedServer server = serve("server", file("ca", ".crt"));
  Config config = config_for(server.port(), "https");
  config.ca.file = file("ca", ".crt");
  const auto member = [](const char* name, const std::string& pem) {
    return std::string("\"") + name + R"(": ")" + std::regex_replace(pem, std::regex("\n"), "\\n") +
           '"';
  };
  std::ofstream(file("credential", ".json"))
      << R"({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", )"
      << R"("status": {)" << member("clientCertificateData", text("client", ".crt")) << ", "
      << member("clientKeyData", text("client", ".key")) << "}}";
  config.exec = ExecConfig{.api_version = "client.authentication.k8s.io/v1",
                           .command = "cat",
                           .arguments = {file("credential", ".json")}};
  CurlWorld world(config);
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 200);
}

TEST_F(CurlTls, VerifiesTheNameThatTheConfigurationGives) {
  const ScriptedServer server = serve("named");
  Config config = config_for(server.port(), "https");
  config.ca.file = file("ca", ".crt");
  config.tls_server_name = "api.test";
  CurlWorld world(config);
  const Response response = call_and_wait(world.transport(), get_of("/"));
  ASSERT_EQ(response.status, 200) << (response.failure ? response.failure->message : "");
  EXPECT_EQ(response.body, "127.0.0.1:" + std::to_string(server.port()));
}

TEST_F(CurlTls, PresentsItsCertificateFromFilesAndFromText) {
  const ScriptedServer server = serve("server", file("ca", ".crt"));
  Config from_files = config_for(server.port(), "https");
  from_files.ca.file = file("ca", ".crt");
  Config from_text = from_files;
  from_files.client_certificate.file = file("client", ".crt");
  from_files.client_key.file = file("client", ".key");
  from_text.client_certificate.pem = text("client", ".crt");
  from_text.client_key.pem = text("client", ".key");
  for (const Config& config : {from_files, from_text}) {
    CurlWorld world(config);
    const Response response = call_and_wait(world.transport(), get_of("/"));
    EXPECT_EQ(response.status, 200) << (response.failure ? response.failure->message : "");
  }
}

TEST_F(CurlTls, FailsWithoutTheCertificateThatTheServerRequires) {
  const ScriptedServer server = serve("server", file("ca", ".crt"));
  Config config = config_for(server.port(), "https");
  config.ca.file = file("ca", ".crt");
  CurlWorld world(config);
  EXPECT_TRUE(call_and_wait(world.transport(), get_of("/")).failure);
}

// A server that checks the certificate of a connection at each request, as kube-apiserver does, and
// for which that of the first connection expires after one request.
TEST_F(CurlTls, UsesANewConnectionAfterTheCertificateOfAKeptOneHasExpired) {
  std::atomic<bool> closed = false;
  const ScriptedServer server(
      [&](Peer& peer) {
        if (peer.number() > 0) {
          while (!peer.read_request().empty()) peer.send(test::answer_text(200, "new"));
          return;
        }
        peer.read_request();
        peer.send(test::answer_text(200, "old"));
        peer.read_request();
        peer.send(test::answer_text(401, ""));
        closed = peer.read_request().empty();
      },
      {file("server", ".crt"), file("server", ".key"), file("ca", ".crt")});
  CurlWorld world(presenting_client(server));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).body, "old");
  const Response second = call_and_wait(world.transport(), get_of("/"));
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.body, "new");
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).body, "new");
  for (int i = 0; i < 1'000 && !closed; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(closed) << "other requests would get a 401 on the old connection";
}

TEST_F(CurlTls, SendsARequestOnANewConnectionOnce) {
  std::atomic<int> requests = 0;
  const ScriptedServer server(
      [&](Peer& peer) {
        while (!peer.read_request().empty()) {
          ++requests;
          peer.send(test::answer_text(401, "who"));
        }
      },
      {file("server", ".crt"), file("server", ".key"), file("ca", ".crt")});
  CurlWorld world(presenting_client(server));
  const Response response = call_and_wait(world.transport(), get_of("/"));
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.body, "who");
  EXPECT_EQ(requests, 2);
}

TEST_F(CurlTls, NamesTheCredentialThatIsWrong) {
  struct Case {
    std::string certificate;
    std::string key;
    std::string sentence;
  };
  AsioExecutor executor;
  for (const Case& each :
       {Case{file("client", ".key"), file("client", ".key"), "must be a PEM certificate"},
        Case{file("client", ".crt"), file("client", ".crt"), "must be a PEM key"},
        Case{file("client", ".crt"), file("locked", ".key"), "without a password"},
        Case{file("client", ".crt"), file("server", ".key"), "must belong to the client"},
        Case{"/nowhere.crt", file("client", ".key"), "\"/nowhere.crt\""},
        Case{file("client", ".crt"), "/nowhere.key", "\"/nowhere.key\""}}) {
    Config config = config_for(1, "https");
    config.client_certificate.file = each.certificate;
    config.client_key.file = each.key;
    const auto transport = CurlTransport::create(config, executor);
    ASSERT_FALSE(transport) << each.sentence;
    EXPECT_THAT(transport.error().message, HasSubstr(each.sentence));
  }
}

}  // namespace
}  // namespace mgpu::kube
