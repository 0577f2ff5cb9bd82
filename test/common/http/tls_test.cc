#include "common/http/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <thread>

#include "common/base/files.h"
#include "test/common/http/served.h"
#include "test/support/certificates.h"
#include "test/support/raw_http.h"

namespace mgpu::http {
namespace {

using namespace std::chrono_literals;
using test::CertificateFiles;
using test::Certificates;
using test::get_text;
using test::RawTls;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ServerTls : public testing::Test {
 protected:
  ServerOptions options() const {
    ServerOptions out;
    out.tls = {.certificate_file = server.certificate, .key_file = server.key};
    out.tls_reload_interval = 5ms;
    return out;
  }
  ServerOptions with_client_ca() const {
    ServerOptions out = options();
    out.tls.client_ca_file = ca.certificate;
    return out;
  }
  RawTls trusting() const { return {.ca_file = ca.certificate}; }
  RawTls showing(const CertificateFiles& files) const {
    return {
        .ca_file = ca.certificate, .certificate_file = files.certificate, .key_file = files.key};
  }
  // The status of one request; 0 if the server closes the connection.
  static int ask(const Served& served, const RawTls& tls) {
    auto client = served.connect(tls);
    client.send(get_text("/"));
    return client.read_response().status;
  }
  // True if the server uses this certificate for new connections after some time.
  bool uses_at_last(const Served& served, const std::string& name) const {
    for (int i = 0; i < 1'000; ++i) {
      if (served.connect(trusting()).server_name() == name) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

  Certificates certificates;
  CertificateFiles ca = certificates.authority("ca");
  CertificateFiles other_ca = certificates.authority("other-ca");
  CertificateFiles server = certificates.issue("server", ca);
};

TEST_F(ServerTls, AnswersOverTls) {
  Served served(describe, options());
  auto client = served.connect(trusting());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    client.send(get_text("/over/tls"));
    EXPECT_EQ(client.read_response().body, "GET /over/tls  0");
  }
  EXPECT_EQ(client.server_name(), "server");
}

TEST_F(ServerTls, TransfersLargeBodies) {
  Served served(echo, options());
  auto client = served.connect(trusting());
  const std::string body(std::size_t{1} << 20, 'x');
  client.send(test::post_text("/", body));
  EXPECT_EQ(client.read_response().body, body);
}

TEST_F(ServerTls, RejectsVersionsBeforeTls12) {
  Served served(describe, options());
  RawTls old = trusting();
  old.version_max = TLS1_1_VERSION;
  EXPECT_FALSE(served.connect(old).connected());
  old.version_max = TLS1_2_VERSION;
  EXPECT_EQ(ask(served, old), 200);
}

TEST_F(ServerTls, ChoosesHttp11) {
  Served served(describe, options());
  RawTls tls = trusting();
  EXPECT_EQ(served.connect(tls).protocol(), "");
  tls.protocols = "h2,http/1.1";
  EXPECT_EQ(served.connect(tls).protocol(), "http/1.1");
  tls.protocols = "h2";
  EXPECT_FALSE(served.connect(tls).connected());
}

TEST_F(ServerTls, ResumesByTicket) {
  Served served(describe, with_client_ca());
  const CertificateFiles files = certificates.issue("client", ca);
  EXPECT_EQ(ask(served, showing(files)), 200);
  RawTls again = showing(files);
  again.resume = true;
  auto client = served.connect(again);
  client.send(get_text("/"));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(client.resumed());
}

TEST_F(ServerTls, RefusesClientsWithoutTheRightCertificate) {
  Served served(describe, with_client_ca());
  EXPECT_EQ(ask(served, trusting()), 0);
  EXPECT_EQ(ask(served, showing(certificates.issue("stranger", other_ca))), 0);
  EXPECT_EQ(ask(served, showing(certificates.issue("client", ca))), 200);
  EXPECT_THAT(served.refused.all(), ElementsAre("tls_handshake", "tls_handshake"));
}

TEST_F(ServerTls, ServesClientsWithAnAllowedName) {
  ServerOptions named = with_client_ca();
  named.tls.client_names = {"kube-scheduler", "localhost"};
  Served by_either(describe, named);
  EXPECT_EQ(ask(by_either, showing(certificates.issue("kube-scheduler", ca))), 200);
  EXPECT_EQ(ask(by_either, showing(certificates.issue("client", ca))), 200)
      << "the certificates of these tests have the DNS name localhost";
  EXPECT_THAT(by_either.refused.all(), IsEmpty());
}

TEST_F(ServerTls, RefusesOtherClientsOfTheCa) {
  ServerOptions named = with_client_ca();
  named.tls.client_names = {"kube-scheduler"};
  bool called = false;
  Served served(
      [&](const Request&, const Respond& respond) {
        called = true;
        respond({});
      },
      named);
  auto client = served.connect(showing(certificates.issue("kubelet", ca)));
  client.send(test::post_text("/", "x"));
  const auto answer = client.read_response();
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.body,
            "{\"error\": \"the client certificate has no name that is allowed here\"}\n");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_FALSE(called);
  EXPECT_THAT(served.refused.all(), ElementsAre("client_name"));
}

TEST_F(ServerTls, ChecksTheNameInAResumedSession) {
  const CertificateFiles kubelet = certificates.issue("kubelet", ca);
  ServerOptions named = with_client_ca();
  named.tls.client_names = {"kube-scheduler"};
  Served served(describe, named);
  EXPECT_EQ(ask(served, showing(kubelet)), 403);
  RawTls again = showing(kubelet);
  again.resume = true;
  auto client = served.connect(again);
  client.send(get_text("/"));
  EXPECT_EQ(client.read_response().status, 403);
  EXPECT_TRUE(client.resumed());
}

// Plain connections wait in their TLS handshake.
TEST_F(ServerTls, ATrustedClientIsNotClosedForOthers) {
  ServerOptions few = with_client_ca();
  few.connections_max = 3;
  Served served(describe, few);
  auto scheduler = served.connect(showing(certificates.issue("kube-scheduler", ca)));
  scheduler.send(get_text("/"));
  EXPECT_EQ(scheduler.read_response().status, 200);
  std::vector<test::RawClient> idle;
  for (int i = 0; i < 10; ++i) idle.push_back(served.connect());
  ASSERT_TRUE(served.refused.wait_for("closed_for_another", 8));
  scheduler.send(get_text("/"));
  EXPECT_EQ(scheduler.read_response().status, 200);
  auto second = served.connect(showing(certificates.issue("kube-scheduler-2", ca)));
  second.send(get_text("/"));
  EXPECT_EQ(second.read_response().status, 200);
}

TEST_F(ServerTls, AConnectionEndsWhenItsCertificateHasExpired) {
  const CertificateFiles files = certificates.issue("kube-scheduler", ca);
  certificates.expire_after(10s, files, ca);
  Served served(describe, with_client_ca());
  auto client = served.connect(showing(files));
  client.send(get_text("/"));
  ASSERT_EQ(client.read_response().status, 200);
  test::RawResponse answer;
  answer.status = 200;
  for (int i = 0; i < 2'000 && answer.status == 200; ++i) {
    std::this_thread::sleep_for(10ms);
    client.send(get_text("/"));
    answer = client.read_response();
  }
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.body, "{\"error\": \"the client certificate has expired\"}\n");
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("client_expired"));
}

TEST_F(ServerTls, NamesNeedAClientCa) {
  ServerOptions named = options();
  named.tls.client_names = {"kube-scheduler"};
  EXPECT_EQ(Served(describe, named).problem, "names of client certificates need a client CA file");
}

TEST_F(ServerTls, EndsAnIncompleteHandshake) {
  ServerOptions short_timeouts = options();
  short_timeouts.transfer_timeout = 50ms;
  Served served(describe, short_timeouts);
  auto client = test::RawClient(served.server->port());
  client.read_to_end();
  EXPECT_TRUE(served.refused.wait_for("tls_handshake"));
}

TEST_F(ServerTls, RefusesPlainHttp) {
  Served served(describe, options());
  EXPECT_EQ(served.ask(get_text("/")).status, 0);
  EXPECT_TRUE(served.refused.wait_for("tls_handshake"));
}

TEST_F(ServerTls, LetsAClientReadAnErrorResponse) {
  ServerOptions small = options();
  small.body_bytes_max = 10;
  Served served(describe, small);
  auto client = served.connect(trusting());
  client.send(test::post_text("/", std::string(100'000, 'x')));
  EXPECT_EQ(client.read_response().status, 413);
}

TEST_F(ServerTls, UsesANewCertificateAfterTheFilesHaveChanged) {
  Served served(describe, options());
  auto before = served.connect(trusting());
  const CertificateFiles renewed = certificates.issue("renewed", ca);
  Certificates::copy(renewed.key, server.key);
  Certificates::copy(renewed.certificate, server.certificate);
  EXPECT_TRUE(uses_at_last(served, "renewed"));
  before.send(get_text("/"));
  EXPECT_EQ(before.read_response().status, 200) << "an open connection is kept";
}

TEST_F(ServerTls, RequiresCertificatesOfANewClientCa) {
  Served served(describe, with_client_ca());
  const CertificateFiles stranger = certificates.issue("stranger", other_ca);
  const std::string ca_text = certificates.file("ca-copy.crt", "");
  Certificates::copy(ca.certificate, ca_text);
  Certificates::copy(other_ca.certificate, ca.certificate);
  RawTls tls = showing(stranger);
  tls.ca_file = ca_text;
  int status = 0;
  for (int i = 0; i < 1'000 && status == 0; ++i) status = ask(served, tls);
  EXPECT_EQ(status, 200);
}

TEST_F(ServerTls, KeepsTheOldCertificateIfTheNewOneIsInvalid) {
  Served served(describe, options());
  const std::string kept = certificates.file("kept.crt", "");
  Certificates::copy(server.certificate, kept);
  certificates.file("server.crt", "not a certificate");
  const std::string problem = "cannot use certificate file \"" + server.certificate;
  while (served.problems.all().empty()) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);  // several reloads of the same files
  EXPECT_THAT(served.problems.all(), ElementsAre(StartsWith(problem)));
  EXPECT_EQ(served.connect(trusting()).server_name(), "server");
  const CertificateFiles renewed = certificates.issue("renewed", ca);
  Certificates::copy(renewed.key, server.key);
  Certificates::copy(renewed.certificate, server.certificate);
  EXPECT_TRUE(uses_at_last(served, "renewed"));
}

TEST_F(ServerTls, ReportsOnceThatAFileIsGone) {
  Served served(describe, options());
  std::remove(server.key.c_str());
  while (served.problems.all().empty()) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(served.problems.all(),
              ElementsAre("cannot read key file \"" + server.key +
                          "\": No such file or directory; the old certificate stays in use"));
  EXPECT_EQ(ask(served, trusting()), 200);
}

class ServerTlsTexts : public ServerTls {
 protected:
  static ServerOptions from_texts() {
    ServerOptions out;
    out.tls = {.client_names = {"kube-scheduler"}, .from_texts = true};
    return out;
  }
  TlsTexts texts_of(const CertificateFiles& files) const {
    return {*read_file(files.certificate, 100'000), *read_file(files.key, 100'000),
            *read_file(ca.certificate, 100'000)};
  }

  CertificateFiles scheduler = certificates.issue("kube-scheduler", ca);
};

TEST_F(ServerTlsTexts, ClosesConnectionsBeforeTheFirstCertificate) {
  Served served(describe, from_texts());
  ASSERT_EQ(served.problem, "");
  EXPECT_FALSE(served.connect(showing(scheduler)).connected());
  EXPECT_EQ(served.ask(get_text("/")).status, 0) << "plain HTTP is not served either";
  EXPECT_TRUE(served.refused.wait_for("no_certificate", 2));
  ASSERT_TRUE(served.server->use_tls(texts_of(server)));
  EXPECT_EQ(ask(served, showing(scheduler)), 200);
}

TEST_F(ServerTlsTexts, RequireACertificateOfTheirAuthorityWithAnAllowedName) {
  Served served(describe, from_texts());
  ASSERT_TRUE(served.server->use_tls(texts_of(server)));
  EXPECT_EQ(ask(served, showing(scheduler)), 200);
  EXPECT_EQ(ask(served, showing(certificates.issue("kubelet", ca))), 403);
  EXPECT_EQ(ask(served, showing(certificates.issue("stranger", other_ca))), 0);
  EXPECT_EQ(ask(served, trusting()), 0);
}

TEST_F(ServerTlsTexts, ThatReplaceOthersAreForNewConnections) {
  Served served(describe, from_texts());
  ASSERT_TRUE(served.server->use_tls(texts_of(server)));
  auto before = served.connect(showing(scheduler));
  before.send(get_text("/"));
  ASSERT_EQ(before.read_response().status, 200);
  ASSERT_TRUE(served.server->use_tls(texts_of(certificates.issue("renewed", ca))));
  auto after = served.connect(showing(scheduler));
  EXPECT_EQ(after.server_name(), "renewed");
  before.send(get_text("/"));
  EXPECT_EQ(before.read_response().status, 200) << "an open connection is kept";
  EXPECT_EQ(before.server_name(), "server");
}

TEST_F(ServerTlsTexts, ThatAreInvalidChangeNothing) {
  Served served(describe, from_texts());
  ASSERT_TRUE(served.server->use_tls(texts_of(server)));
  const auto why = [&](const TlsTexts& texts) {
    const auto used = served.server->use_tls(texts);
    return used ? std::string() : used.error().message;
  };
  const TlsTexts good = texts_of(server);
  EXPECT_THAT(why({"x", good.key, ""}), StartsWith("cannot use the certificate: "));
  EXPECT_THAT(why({"", good.key, ""}), StartsWith("cannot use the certificate: "));
  EXPECT_THAT(why({good.certificate, "x", ""}), StartsWith("cannot use the key: "));
  EXPECT_EQ(why({good.certificate, texts_of(scheduler).key, ""}),
            "the key does not match the certificate");
  EXPECT_EQ(served.connect(showing(scheduler)).server_name(), "server");
}

TEST_F(ServerTls, SaysWhyItCannotStart) {
  const auto why = [](const TlsOptions& tls) {
    const auto loaded = Tls::load(tls);
    return loaded ? std::string() : loaded.error().message;
  };
  const std::string garbage = certificates.file("garbage", "-----BEGIN CERTIFICATE-----\nx\n");
  const std::string empty = certificates.file("empty", "");
  const CertificateFiles other = certificates.issue("other", ca);
  EXPECT_EQ(why({"/no/such.crt", server.key, ""}),
            "cannot read certificate file \"/no/such.crt\": No such file or directory");
  EXPECT_THAT(why({empty, server.key, ""}), HasSubstr(empty + "\": it is empty"));
  EXPECT_THAT(why({garbage, server.key, ""}), StartsWith("cannot use certificate file"));
  EXPECT_THAT(why({server.certificate, garbage, ""}), StartsWith("cannot use key file"));
  EXPECT_THAT(why({server.certificate, certificates.encrypted_key(server), ""}),
              StartsWith("cannot use key file"));
  EXPECT_EQ(why({server.certificate, other.key, ""}),
            "the key in \"" + other.key + "\" does not match the certificate in \"" +
                server.certificate + "\"");
  EXPECT_THAT(why({server.certificate, server.key, garbage}),
              StartsWith("cannot use client CA file"));
  EXPECT_THAT(why({server.certificate, server.key, ""}), IsEmpty());
}

}  // namespace
}  // namespace mgpu::http
