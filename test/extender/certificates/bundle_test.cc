// The certificates as OpenSSL verifies them, and when they are renewed.
#include "extender/certificates/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "extender/certificates/facts.h"
#include "extender/certificates/limits.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::sys_seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const sys_seconds kNow = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1);
const ServerNames kNames = {"10.96.0.20", "::1", "mgpu-extender.kube-system.svc"};

struct Question {
  int purpose = X509_PURPOSE_SSL_SERVER;
  std::string host{};
  std::string ip{};
  sys_seconds at = kNow;
};

// As a TLS client or server with OpenSSL verifies: "ok", or OpenSSL's reason.
std::string verify(const PemPair& pair, const std::string& authorities, const Question& question) {
  const std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>> store(X509_STORE_new());
  const auto trusted = read_certificates(authorities);
  for (const X509Owner& one : trusted) X509_STORE_add_cert(store.get(), one.get());
  const auto leaf = read_certificates(pair.certificate);
  const std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>> check(
      X509_STORE_CTX_new());
  X509_STORE_CTX_init(check.get(), store.get(), leaf.at(0).get(), nullptr);
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(check.get());
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_time(rules, question.at.time_since_epoch().count());
  X509_VERIFY_PARAM_set_purpose(rules, question.purpose);
  if (!question.host.empty()) X509_VERIFY_PARAM_set1_host(rules, question.host.c_str(), 0);
  if (!question.ip.empty()) X509_VERIFY_PARAM_set1_ip_asc(rules, question.ip.c_str());
  const bool verified = X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  return verified ? "ok" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
}

std::string verify_server(const CertificateBundle& bundle, Question question) {
  return verify(bundle.server, bundle.authority.certificate, question);
}

class CertificateBundleTest : public testing::Test {
 protected:
  static Examination examine_at(const CertificateBundle& bundle, sys_seconds now,
                                const ServerNames& names = kNames) {
    return examine(bundle, names, now);
  }
  // What is renewed, and the bundle afterwards.
  static CertificateBundle renew(const CertificateBundle& bundle, sys_seconds now,
                                 const ServerNames& names = kNames) {
    auto fresh = renewed(bundle, examine(bundle, names, now), names, now);
    EXPECT_TRUE(fresh) << fresh.error().message;
    return fresh ? *fresh : bundle;
  }

  const CertificateBundle bundle = new_bundle(kNames, kNow);
};

TEST_F(CertificateBundleTest, TheServerIsAcceptedUnderEachOfItsNamesAndNoOther) {
  EXPECT_EQ(verify_server(bundle, {.host = "mgpu-extender.kube-system.svc"}), "ok");
  EXPECT_EQ(verify_server(bundle, {.ip = "10.96.0.20"}), "ok");
  EXPECT_EQ(verify_server(bundle, {.ip = "::1"}), "ok");
  EXPECT_EQ(verify_server(bundle, {.host = "kube-system.svc"}), "hostname mismatch");
  EXPECT_EQ(verify_server(bundle, {.ip = "10.96.0.21"}), "IP address mismatch");
  EXPECT_THAT(verify_server(bundle, {.purpose = X509_PURPOSE_SSL_CLIENT}),
              HasSubstr("unsuitable certificate purpose"));
}

TEST_F(CertificateBundleTest, TheClientIsKubeSchedulerAndNoServer) {
  const std::string& ca = bundle.authority.certificate;
  EXPECT_EQ(verify(bundle.client, ca, {.purpose = X509_PURPOSE_SSL_CLIENT}), "ok");
  EXPECT_THAT(verify(bundle.client, ca, {}), HasSubstr("unsuitable certificate purpose"));
  EXPECT_EQ(read_facts(bundle.client.certificate)->common_name, "kube-scheduler");
}

TEST_F(CertificateBundleTest, AnotherAuthorityVouchesForNothing) {
  const CertificateBundle other = new_bundle(kNames, kNow);
  EXPECT_NE(verify(bundle.server, other.authority.certificate, {}), "ok");
  EXPECT_NE(bundle.authority.key, other.authority.key);
  EXPECT_NE(bundle.server.key, bundle.client.key);
}

TEST_F(CertificateBundleTest, IsValidForAYearAndTheAuthorityAndItsClientForTen) {
  EXPECT_EQ(verify_server(bundle, {.at = kNow + days(364)}), "ok");
  EXPECT_EQ(verify_server(bundle, {.at = kNow + days(366)}), "certificate has expired");
  const auto ends = expiries_of(bundle);
  EXPECT_EQ(ends.at("server"), kNow + kCertificateLife);
  EXPECT_EQ(ends.at("client"), kNow + kAuthorityLife);
  EXPECT_EQ(ends.at("ca"), kNow + kAuthorityLife);
  const CertificateBundle last = renew(bundle, kNow + days(3600));
  EXPECT_EQ(verify_server(last, {.at = kNow + days(3652)}), "ok");
}

TEST_F(CertificateBundleTest, IsValidForAClockThatIsSlowByAnHour) {
  EXPECT_EQ(verify_server(bundle, {.at = kNow - 1h}), "ok");
  EXPECT_EQ(verify(bundle.client, bundle.authority.certificate,
                   {.purpose = X509_PURPOSE_SSL_CLIENT, .at = kNow - 1h}),
            "ok");
  const Examination found = examine_at(bundle, kNow - 1h);
  EXPECT_TRUE(found.usable);
  EXPECT_FALSE(found.renewals());
}

TEST_F(CertificateBundleTest, NeedsNothingUntilAThirdOfTheLifeIsLeft) {
  const auto third = (kCertificateLife + kClockTolerance) / 3;
  const Examination before = examine_at(bundle, kNow + kCertificateLife - third - 1h);
  EXPECT_TRUE(before.usable);
  EXPECT_FALSE(before.renewals());
  EXPECT_EQ(before.problem, "");
  const sys_seconds due = kNow + kCertificateLife - third;
  const Examination found = examine_at(bundle, due);
  EXPECT_TRUE(found.usable) << "until it is renewed";
  EXPECT_EQ(found.renew_server, "expires on 2027-03-01");
  EXPECT_EQ(found.renew_client, "");
  const CertificateBundle fresh = renew(bundle, due);
  EXPECT_EQ(fresh.authority.certificate, bundle.authority.certificate);
  EXPECT_NE(fresh.server.key, bundle.server.key);
  EXPECT_EQ(verify_server(fresh, {.at = due + days(364)}), "ok");
  EXPECT_FALSE(examine_at(fresh, due).renewals());
}

// Those of earlier versions were for a year.
TEST_F(CertificateBundleTest, AClientThatEndsLongBeforeItsAuthorityIsRenewedOnce) {
  CertificateBundle early = bundle;
  early.client = *issue_client(bundle.authority, "kube-scheduler", kNow - days(8 * 365));
  EXPECT_EQ(examine_at(early, kNow).renew_client, "expires on 2028-03-03");
  const CertificateBundle fresh = renew(early, kNow);
  EXPECT_EQ(expiries_of(fresh).at("client"), kNow + kAuthorityLife);
  EXPECT_FALSE(examine_at(fresh, kNow).renewals());
}

TEST_F(CertificateBundleTest, ACertificateIsNotRenewedToEndWithItsAuthorityAgain) {
  const sys_seconds end = kNow + kAuthorityLife;
  const CertificateBundle last = renew(bundle, end - days(30));
  EXPECT_EQ(expiries_of(last).at("server"), end);
  EXPECT_FALSE(examine_at(last, end - days(1)).renewals());
}

TEST_F(CertificateBundleTest, AMissingNameIsAddedToTheOnesThatTheServerHas) {
  const ServerNames other = {"10.0.0.1", "mgpu-extender.kube-system.svc"};
  const Examination found = examine_at(bundle, kNow, other);
  EXPECT_EQ(found.renew_server, "lacks the name 10.0.0.1");
  EXPECT_EQ(found.renew_client, "");
  EXPECT_TRUE(found.usable);
  const CertificateBundle fresh = renew(bundle, kNow, other);
  EXPECT_EQ(fresh.client.certificate, bundle.client.certificate);
  EXPECT_EQ(verify_server(fresh, {.ip = "10.0.0.1"}), "ok");
  EXPECT_EQ(verify_server(fresh, {.ip = "10.96.0.20"}), "ok");
  EXPECT_FALSE(examine_at(fresh, kNow, other).renewals());
  EXPECT_FALSE(examine_at(fresh, kNow).renewals()) << "a replica with the old names agrees";
}

TEST_F(CertificateBundleTest, ATimelyRenewalLeavesOutOldNames) {
  const CertificateBundle fresh = renew(bundle, kNow + days(364), {"10.96.0.20"});
  EXPECT_EQ(verify_server(fresh, {.ip = "10.96.0.20", .at = kNow + days(364)}), "ok");
  EXPECT_THAT(read_facts(fresh.server.certificate)->names, ElementsAre("10.96.0.20"));
}

TEST_F(CertificateBundleTest, BrokenServerAndClientCertificatesAreReplaced) {
  const CertificateBundle other = new_bundle(kNames, kNow);
  for (const auto& [server, reason] : std::map<std::string, std::pair<PemPair, std::string>>{
           {"missing", {{"", ""}, "is missing"}},
           {"text", {{"text", bundle.server.key}, "is not a PEM certificate"}},
           {"without key", {{bundle.server.certificate, ""}, "has no key that belongs to it"}},
           {"other key",
            {{bundle.server.certificate, bundle.client.key}, "has no key that belongs to it"}},
           {"foreign", {other.server, "is not accepted: unable to get local issuer certificate"}},
           {"for clients", {bundle.client, "is not accepted: unsuitable certificate purpose"}}}) {
    CertificateBundle broken = bundle;
    broken.server = reason.first;
    const Examination found = examine_at(broken, kNow);
    EXPECT_THAT(found.renew_server, StartsWith(reason.second)) << server;
    EXPECT_FALSE(found.usable) << server;
    EXPECT_EQ(found.problem, "") << server;
    EXPECT_EQ(verify_server(renew(broken, kNow), {.ip = "10.96.0.20"}), "ok") << server;
  }
  CertificateBundle wrong_name = bundle;
  wrong_name.client = *issue_client(bundle.authority, "kubelet", kNow);
  EXPECT_EQ(examine_at(wrong_name, kNow).renew_client, "lacks the name kube-scheduler");
  EXPECT_TRUE(examine_at(wrong_name, kNow).usable);
  const Examination expired = examine_at(bundle, kNow + days(400));
  EXPECT_EQ(expired.renew_server, "has expired on 2027-03-01");
  EXPECT_FALSE(expired.usable);
  EXPECT_EQ(examine_at(bundle, kNow - days(2)).problem.substr(0, 32),
            "ca.crt is not valid before 2026-");
}

TEST_F(CertificateBundleTest, ABrokenAuthorityIsReportedAndNotReplaced) {
  const PemPair other = make_authority(kNow);
  const std::string leaf = bundle.server.certificate;
  for (const auto& [certificate, problem] :
       {std::pair<std::string, std::string>{"", "ca.crt is missing: restore it from a backup"},
        {"text", "ca.crt is not a PEM certificate: "},
        {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
         "ca.crt is not a PEM certificate: "},
        {leaf, "ca.crt is not the certificate of an authority: "}}) {
    CertificateBundle broken = bundle;
    broken.authority.certificate = certificate;
    const Examination found = examine_at(broken, kNow);
    EXPECT_THAT(found.problem, StartsWith(problem));
    EXPECT_THAT(found.problem,
                HasSubstr("or remove the data of the secret, so that a new authority is made"));
    EXPECT_FALSE(found.usable);
    EXPECT_FALSE(found.renewals());
    EXPECT_FALSE(found.empty);
  }
  const Examination expired = examine_at(bundle, kNow + days(3700));
  EXPECT_THAT(expired.problem, StartsWith("ca.crt has expired on 2036-03-01: "));
  EXPECT_FALSE(expired.usable);
}

TEST_F(CertificateBundleTest, WithoutTheAuthoritysKeyValidCertificatesAreUsedAndNoneIsRenewed) {
  for (const auto& [key, problem] :
       {std::pair<std::string, std::string>{"", "ca.key is missing, "},
        {"text", "ca.key is not a PEM key without a password, "},
        {bundle.server.key, "ca.key does not belong to the certificate in ca.crt, "}}) {
    CertificateBundle broken = bundle;
    broken.authority.key = key;
    const Examination found = examine_at(broken, kNow + days(364));
    EXPECT_THAT(found.problem,
                StartsWith(problem + "so that no certificate can be renewed: restore it"));
    EXPECT_TRUE(found.usable);
    EXPECT_FALSE(found.renewals());
    EXPECT_FALSE(examine_at(broken, kNow + days(366)).usable);
  }
}

TEST_F(CertificateBundleTest, AnAuthorityThatEndsWithinAYearIsReported) {
  EXPECT_EQ(examine_at(bundle, kNow + kAuthorityLife - kAuthorityWarning).problem, "");
  const Examination found = examine_at(bundle, kNow + kAuthorityLife - kAuthorityWarning + 1h);
  EXPECT_THAT(found.problem, StartsWith("the authority in ca.crt expires on 2036-03-01: "));
}

// A change of the authority without interruption: first both are trusted, then the new one signs.
TEST_F(CertificateBundleTest, AnotherAuthorityInTheFileIsTrustedTooAndTheOneOfTheKeySigns) {
  const PemPair next = make_authority(kNow);
  CertificateBundle both = bundle;
  both.authority.certificate += next.certificate;
  EXPECT_FALSE(examine_at(both, kNow).renewals());
  both.authority.key = next.key;
  EXPECT_FALSE(examine_at(both, kNow).renewals()) << "the old certificates are still trusted";
  CertificateBundle only_next = both;
  only_next.authority.certificate = next.certificate;
  EXPECT_THAT(examine_at(only_next, kNow).renew_server, StartsWith("is not accepted"));
  const CertificateBundle fresh = renew(only_next, kNow);
  EXPECT_EQ(verify_server(fresh, {.ip = "10.96.0.20"}), "ok");
  EXPECT_EQ(verify(fresh.server, both.authority.certificate, {}), "ok");
  EXPECT_NE(verify(fresh.server, bundle.authority.certificate, {}), "ok");
}

TEST_F(CertificateBundleTest, IsTheDataOfASecretAndBack) {
  const kube::StringMap data = data_of(bundle);
  EXPECT_EQ(data.size(), 6U);
  EXPECT_EQ(data.at("tls.crt"), bundle.server.certificate);
  EXPECT_EQ(bundle_of(data), bundle);
  EXPECT_TRUE(examine_at(bundle_of({}), kNow).empty);
  EXPECT_TRUE(examine_at(bundle_of({{"other", "x"}}), kNow).empty);
  EXPECT_FALSE(examine_at(bundle, kNow).empty);
}

}  // namespace
}  // namespace mgpu::extender
