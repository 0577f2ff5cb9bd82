// The whole extender with --tls-secret, with the in-memory API server, over HTTPS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/asio_executor.h"
#include "common/base/log.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/extender.h"
#include "test/support/certificates.h"
#include "test/support/faulty_api_server.h"
#include "test/support/raw_http.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const kube::ObjectRef kSecret{"kube-system", "mgpu-extender-tls"};

class ExtenderCertificatesTest : public testing::Test {
 protected:
  ExtenderCertificatesTest() { EXPECT_TRUE(set_log_level("off")); }
  ~ExtenderCertificatesTest() override {
    extender.reset();
    executor.stop();
  }

  void start(bool metrics_too = false) {
    ExtenderOptions options;
    options.verbs.contract = *Contract::for_domain(kDefaultResourceDomain);
    options.verbs.policy = *find_policy("binpack");
    options.http.tls = {.client_names = {kSchedulerName}, .from_texts = true};
    options.service.http.tls.from_texts = metrics_too;
    options.certificates = {kSecret, {"127.0.0.1"}};
    auto started = Extender::start(std::move(options), api_server);
    ASSERT_TRUE(started) << started.error().message;
    extender = std::move(*started);
  }
  static bool becomes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 6'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  void refuse_secrets() {
    api_server.set_faults([](const kube::Request& request) -> std::optional<test::Fault> {
      if (request.target.find("/secrets") == std::string::npos) return std::nullopt;
      return test::Fault{.status = 403};
    });
  }
  kube::StringMap secret() {
    const auto read = kube::read_secret(api_server.call(kube::get_secret(kSecret)).body);
    return read ? read->data : kube::StringMap{};
  }
  // A client with files of the Secret; without a certificate if `name` is empty.
  test::RawTls client(const std::string& name) {
    const auto data = secret();
    test::RawTls tls{.ca_file = files.file("ca.crt", data.at("ca.crt"))};
    if (name.empty()) return tls;
    tls.certificate_file = files.file(name + ".crt", data.at(name + ".crt"));
    tls.key_file = files.file(name + ".key", data.at(name + ".key"));
    return tls;
  }
  int verb_status(const std::string& name) {
    test::RawClient connection(extender->port(), client(name));
    connection.send(test::post_text("/mgpu/filter", "{}"));
    return connection.read_response().status;
  }
  test::RawResponse probe() const {
    test::RawClient connection(extender->service_port());
    connection.send(test::get_text("/readyz"));
    return connection.read_response();
  }

  test::Certificates files;
  AsioExecutor executor;
  test::FaultyApiServer api_server{executor, {}};
  std::unique_ptr<Extender> extender;
};

TEST_F(ExtenderCertificatesTest, TheClientOfTheSecretReachesTheVerbsAndOthersDoNot) {
  start();
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  EXPECT_EQ(verb_status("client"), 400) << "no pod, but the client is allowed";
  EXPECT_EQ(verb_status(""), 0);
  EXPECT_EQ(verb_status("tls"), 0) << "the certificate of a server";
}

TEST_F(ExtenderCertificatesTest, IsNotReadyBeforeItHasCertificates) {
  refuse_secrets();
  start();
  ASSERT_TRUE(becomes_true([this] { return probe().body.find("nodes") == std::string::npos; }));
  EXPECT_EQ(probe().status, 503);
  EXPECT_THAT(probe().body, HasSubstr("secret kube-system/mgpu-extender-tls"));
  EXPECT_FALSE(extender->ready());
  api_server.set_faults({});
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  EXPECT_EQ(probe().status, 200);
}

TEST_F(ExtenderCertificatesTest, ExportsWhenTheCertificatesExpire) {
  start();
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  test::RawClient connection(extender->service_port());
  connection.send(test::get_text("/metrics"));
  const std::string metrics = connection.read_response().body;
  for (const char* certificate : {"ca", "server", "client"}) {
    EXPECT_THAT(metrics, HasSubstr("mgpu_extender_certificate_expiry_timestamp_seconds{"
                                   "certificate=\"" +
                                   std::string(certificate) + "\"} "));
  }
}

TEST_F(ExtenderCertificatesTest, ServesMetricsWithItsCertificateWhereThisIsWanted) {
  refuse_secrets();
  start(true);
  const CertificateBundle other = new_bundle({"127.0.0.1"}, std::chrono::sys_seconds(0s));
  const std::string other_ca = files.file("other.crt", other.authority.certificate);
  EXPECT_EQ(probe().status, 0) << "plain HTTP is not served";
  api_server.set_faults({});
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  test::RawClient verified(extender->service_port(), client(""));
  ASSERT_TRUE(verified.connected());
  verified.send(test::get_text("/metrics"));
  EXPECT_EQ(verified.read_response().status, 200);
  EXPECT_FALSE(test::RawClient(extender->service_port(), {.ca_file = other_ca}).connected());
}

}  // namespace
}  // namespace mgpu::extender
