#include "common/http/client_certificate.h"

#include <gtest/gtest.h>

namespace mgpu::http {
namespace {

TEST(ClientCertificate, NeedsOneOfTheAllowedNames) {
  const ClientCertificate certificate{.names = {"kube-scheduler", "scheduler.test"}, .expires = {}};
  struct Case {
    std::vector<std::string> allowed;
    bool is_allowed;
  };
  const Case cases[] = {
      {{}, true},
      {{"kube-scheduler"}, true},
      {{"other", "scheduler.test"}, true},
      {{"other"}, false},
      {{"KUBE-SCHEDULER"}, false},
      {{"kube"}, false},
      {{std::string("kube-scheduler\0.evil", 20)}, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(has_allowed_name(certificate, c.allowed), c.is_allowed);
  }
  EXPECT_FALSE(has_allowed_name({}, {"kube-scheduler"})) << "a certificate without names";
}

}  // namespace
}  // namespace mgpu::http
