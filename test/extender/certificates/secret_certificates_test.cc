// The Secret of two replicas, on the in-memory API server.
#include "extender/certificates/secret_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/certificates/facts.h"
#include "extender/certificates/limits.h"
#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::sys_seconds;
using test::Fault;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const sys_seconds kStart = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1);
const kube::ObjectRef kSecret{"kube-system", "mgpu-extender-tls"};

// An extender as far as its certificates are concerned.
struct Replica {
  Replica(kube::Transport& transport, const sys_seconds& now, ServerNames names)
      : client(transport),
        certificates(
            client, {kSecret, std::move(names)},
            {.on_certificates = [this](const CertificateBundle& bundle) -> Result<void> {
               if (!refusal.empty()) return error(refusal);
               used.push_back(bundle);
               return {};
             },
             .on_renewed = [this](const std::string& which,
                                  const std::string& why) { made.push_back(which + ": " + why); },
             .on_expiries = [this](const auto& all) { ends = all; },
             .on_problem = [this](const std::string& what) { problems.push_back(what); }},
            [&now] { return now; }) {}

  kube::Client client;
  std::string refusal;
  std::vector<CertificateBundle> used;
  std::vector<std::string> made;
  std::vector<std::string> problems;
  std::map<std::string, sys_seconds> ends;
  SecretCertificates certificates;
};

class SecretCertificatesTest : public testing::Test {
 protected:
  void start(Replica& replica) {
    replica.certificates.start();
    executor.run_ready();
  }
  void pass(std::chrono::seconds time) {
    now += time;
    executor.advance(time);
  }
  kube::Secret secret() {
    const auto read = kube::read_secret(server.call(kube::get_secret(kSecret)).body);
    EXPECT_TRUE(read) << read.error().message;
    return read ? *read : kube::Secret{};
  }
  void create(const kube::StringMap& data) {
    EXPECT_EQ(server.call(kube::create_secret(kSecret, data)).status, 201);
  }
  void change(const kube::StringMap& data) {
    EXPECT_EQ(server.call(kube::change_secret(kSecret, secret().resource_version, data)).status,
              200);
  }
  void remove() {
    kube::Request request = kube::get_secret(kSecret);
    request.method = kube::Method::kDelete;
    EXPECT_TRUE(server.call(request).ok());
  }

  test::ManualExecutor executor;
  test::FaultyApiServer server{executor, {}};
  sys_seconds now = kStart;
  Replica a{server, now, {"10.96.0.20"}};
  Replica b{server, now, {"10.96.0.20"}};
};

TEST_F(SecretCertificatesTest, AreMadeWhereThereIsNoSecret) {
  EXPECT_FALSE(a.certificates.available());
  start(a);
  EXPECT_TRUE(a.certificates.available());
  EXPECT_EQ(secret().type, "Opaque");
  EXPECT_THAT(a.used, ElementsAre(bundle_of(secret().data)));
  EXPECT_THAT(a.made, ElementsAre("all: the secret did not exist"));
  EXPECT_THAT(a.problems, IsEmpty());
  EXPECT_EQ(a.ends.at("ca"), kStart + kAuthorityLife);
  EXPECT_EQ(a.ends.at("server"), kStart + kCertificateLife);
  EXPECT_EQ(a.ends.at("client"), kStart + kAuthorityLife);
}

TEST_F(SecretCertificatesTest, OfTheReplicaThatCreatesTheSecretFirstAreUsedByBoth) {
  a.certificates.start();
  b.certificates.start();  // both read before one of them writes
  executor.run_ready();
  pass(kSecretRetryFirst);
  ASSERT_THAT(a.used, SizeIs(1));
  EXPECT_EQ(a.used, b.used);
  EXPECT_EQ(a.made.size() + b.made.size(), 1U);
  EXPECT_THAT(a.problems, IsEmpty());
  EXPECT_THAT(b.problems, IsEmpty());
}

TEST_F(SecretCertificatesTest, AreMadeInASecretThatHasNone) {
  create({{"note", "kept"}});
  start(a);
  EXPECT_THAT(a.made, ElementsAre("all: the secret had no certificates"));
  EXPECT_EQ(secret().data.at("note"), "kept");
  EXPECT_THAT(a.used, ElementsAre(bundle_of(secret().data)));
}

TEST_F(SecretCertificatesTest, AreReadAgainAndNotWrittenWhileTheyAreValid) {
  start(a);
  const std::string version = secret().resource_version;
  for (int i = 0; i < 10; ++i) pass(kSecretReadInterval);
  EXPECT_EQ(secret().resource_version, version);
  EXPECT_THAT(a.used, SizeIs(1));
}

TEST_F(SecretCertificatesTest, AreRenewedOnceByOneOfTwoReplicas) {
  start(a);
  start(b);
  const CertificateBundle first = bundle_of(secret().data);
  now += days(250);
  pass(kSecretReadInterval);
  pass(kSecretReadInterval);
  const CertificateBundle second = bundle_of(secret().data);
  EXPECT_EQ(second.authority.certificate, first.authority.certificate);
  EXPECT_NE(second.server.certificate, first.server.certificate);
  EXPECT_EQ(second.client.certificate, first.client.certificate);
  EXPECT_THAT(a.used, ElementsAre(first, second));
  EXPECT_THAT(b.used, ElementsAre(first, second));
  std::vector<std::string> made = a.made;
  made.insert(made.end(), b.made.begin(), b.made.end());
  EXPECT_THAT(made, ElementsAre("all: the secret did not exist", "server: expires on 2027-03-01"));
  EXPECT_EQ(a.ends.at("server"), b.ends.at("server"));
  EXPECT_GT(a.ends.at("server"), kStart + kCertificateLife);
}

TEST_F(SecretCertificatesTest, ChangesOfTheSecretAreTakenUp) {
  start(a);
  const CertificateBundle other = new_bundle({"10.96.0.20"}, now);
  change(data_of(other));
  pass(kSecretReadInterval);
  EXPECT_THAT(a.used, ElementsAre(testing::_, other));
  EXPECT_THAT(a.problems, IsEmpty());
}

TEST_F(SecretCertificatesTest, ADeletedSecretIsMadeAgain) {
  start(a);
  remove();
  pass(kSecretReadInterval);
  EXPECT_THAT(a.used, SizeIs(2));
  EXPECT_EQ(a.used.back(), bundle_of(secret().data));
}

TEST_F(SecretCertificatesTest, ReplicasWithDifferentNamesAgree) {
  Replica upgraded{server, now, {"10.96.0.21"}};
  start(a);
  start(upgraded);
  EXPECT_THAT(upgraded.made, ElementsAre("server: lacks the name 10.96.0.21"));
  const std::string version = secret().resource_version;
  for (int i = 0; i < 5; ++i) pass(kSecretReadInterval);
  EXPECT_EQ(secret().resource_version, version);
  EXPECT_EQ(a.used.back(), upgraded.used.back());
}

TEST_F(SecretCertificatesTest, OfAForeignSecretAreNeitherUsedNorChanged) {
  kube::Request request = kube::create_secret(kSecret, {{"tls.crt", "x"}, {"tls.key", "y"}});
  request.body.replace(request.body.find("Opaque"), 6, "kubernetes.io/tls");
  EXPECT_EQ(server.call(request).status, 201);
  start(a);
  EXPECT_FALSE(a.certificates.available());
  EXPECT_THAT(
      a.problems,
      ElementsAre("secret kube-system/mgpu-extender-tls has the type \"kubernetes.io/tls\", "
                  "and must have the type Opaque: it belongs to another program, so name "
                  "another secret with --tls-secret"));
  EXPECT_EQ(secret().data.at("tls.crt"), "x");
}

TEST_F(SecretCertificatesTest, ABrokenAuthorityIsReportedAndTheLastCertificatesStayInUse) {
  start(a);
  change({{"ca.crt", "damaged"}});
  const std::string version = secret().resource_version;
  pass(kSecretReadInterval);
  EXPECT_THAT(a.problems, ElementsAre(StartsWith("secret kube-system/mgpu-extender-tls: ca.crt is "
                                                 "not a PEM certificate: restore it")));
  EXPECT_THAT(a.used, SizeIs(1));
  EXPECT_TRUE(a.certificates.available());
  EXPECT_EQ(secret().resource_version, version);
  start(b);
  EXPECT_FALSE(b.certificates.available());
  change({{"ca.crt", a.used[0].authority.certificate}});
  pass(kSecretReadInterval);
  pass(kSecretReadInterval);
  EXPECT_TRUE(b.certificates.available());
}

TEST_F(SecretCertificatesTest, AProblemIsReportedAgainAfterAnHour) {
  create({{"ca.crt", "damaged"}});
  start(a);
  for (int minute = 1; minute < 60; ++minute) pass(60s);
  EXPECT_THAT(a.problems, SizeIs(1));
  pass(60s);
  pass(60s);
  EXPECT_THAT(a.problems, SizeIs(2));
}

TEST_F(SecretCertificatesTest, WithoutTheRightToWriteValidCertificatesAreUsed) {
  start(a);
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (request.method == kube::Method::kGet) return std::nullopt;
    return Fault{.status = 403};
  });
  now += days(250);
  pass(kSecretReadInterval);
  ASSERT_THAT(a.problems, SizeIs(1));
  EXPECT_THAT(a.problems[0], StartsWith("change secret kube-system/mgpu-extender-tls: HTTP 403"));
  EXPECT_THAT(a.problems[0], testing::EndsWith("; the server certificate expires on 2027-03-01"));
  start(b);
  EXPECT_TRUE(b.certificates.available());
  EXPECT_EQ(b.used.back(), a.used.back());
}

TEST_F(SecretCertificatesTest, WithoutTheRightToCreateASecretTheLogSaysHow) {
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (request.method != kube::Method::kPost) return std::nullopt;
    return Fault{.status = 403};
  });
  start(a);
  EXPECT_FALSE(a.certificates.available());
  ASSERT_THAT(a.problems, SizeIs(1));
  EXPECT_THAT(a.problems[0], StartsWith("create secret kube-system/mgpu-extender-tls: HTTP 403"));
  EXPECT_THAT(a.problems[0], HasSubstr("kubectl create secret generic --namespace kube-system "
                                       "mgpu-extender-tls"));
  create({});
  pass(kSecretReadInterval);
  EXPECT_TRUE(a.certificates.available());
}

TEST_F(SecretCertificatesTest, AreMadeOnceTheApiServerAnswers) {
  server.set_faults([](const kube::Request&) { return Fault{.kind = Fault::Kind::kRefuse}; });
  start(a);
  pass(10s);
  EXPECT_FALSE(a.certificates.available());
  EXPECT_THAT(a.problems, ElementsAre(HasSubstr("connection refused")));
  server.set_faults({});
  pass(kSecretReadInterval);
  EXPECT_TRUE(a.certificates.available());
}

// The Secret exists then, though its creation was not answered.
TEST_F(SecretCertificatesTest, AreReadAfterALostAnswer) {
  server.set_faults([](const kube::Request& request) -> std::optional<Fault> {
    if (request.method != kube::Method::kPost) return std::nullopt;
    return Fault{.kind = Fault::Kind::kLoseAnswer};
  });
  start(a);
  pass(kSecretRetryFirst);
  EXPECT_THAT(a.used, ElementsAre(bundle_of(secret().data)));
}

// As with an admission webhook that removes what is written.
TEST_F(SecretCertificatesTest, AWriteThatChangesNothingIsNotRepeatedAtOnce) {
  create({});
  int writes = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (request.method == kube::Method::kGet) return std::nullopt;
    ++writes;
    return Fault{.status = 200, .body = "{}"};
  });
  start(a);
  EXPECT_EQ(writes, 2);
  pass(600s);
  EXPECT_LT(writes, 30);
  EXPECT_FALSE(a.certificates.available());
}

TEST_F(SecretCertificatesTest, ThatTheServerRefusesAreReported) {
  a.refusal = "cannot use the certificate: too old";
  start(a);
  pass(kSecretReadInterval);
  EXPECT_FALSE(a.certificates.available());
  EXPECT_THAT(a.problems, ElementsAre("secret kube-system/mgpu-extender-tls: cannot use the "
                                      "certificate: too old"));
}

TEST_F(SecretCertificatesTest, NoSentenceContainsAKey) {
  start(a);
  const std::string key = secret().data.at("ca.key");
  change({{"ca.crt", key}, {"tls.crt", key}, {"client.crt", key}});
  pass(kSecretReadInterval);
  ASSERT_THAT(a.problems, SizeIs(1));
  EXPECT_THAT(a.problems[0], testing::Not(HasSubstr("PRIVATE KEY")));
}

}  // namespace
}  // namespace mgpu::extender
