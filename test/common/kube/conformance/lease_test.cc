// Leases: one of two writers with the same resourceVersion succeeds.
#include <string>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(LeaseConformance);

std::string lease_json(const std::string& name, const std::string& holder,
                       const std::string& version = "") {
  Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                {"kind", "Lease"},
                {"metadata", {{"name", name}}},
                {"spec", {{"holderIdentity", holder}}}};
  if (!version.empty()) lease["metadata"]["resourceVersion"] = version;
  return lease.dump();
}

std::string leases(const std::string& name_space) {
  return "/apis/coordination.k8s.io/v1/namespaces/" + name_space + "/leases";
}

TEST_P(LeaseConformance, IsCreatedOnce) {
  const std::string lease = name("lease");
  EXPECT_EQ(get(leases(name_space()) + "/" + lease).code, 404);
  const Json created = create(leases(name_space()), lease_json(lease, "a"));
  EXPECT_EQ(created["spec"]["holderIdentity"], "a");
  const Answer again = post(leases(name_space()), lease_json(lease, "b"));
  EXPECT_EQ(again.code, 409) << again.text;
  EXPECT_EQ(again.body["reason"], "AlreadyExists");
  EXPECT_EQ(get(leases(name_space()) + "/" + lease).body["spec"]["holderIdentity"], "a");
}

TEST_P(LeaseConformance, IsReplacedByTheFirstOfTwoWritersWithTheSameVersion) {
  const std::string lease = name("lease");
  const std::string path = leases(name_space()) + "/" + lease;
  const Json created = create(leases(name_space()), lease_json(lease, "a"));
  const Answer first = call(Method::kPut, path, lease_json(lease, "b", version_of(created)));
  EXPECT_EQ(first.code, 200) << first.text;
  EXPECT_EQ(first.body["spec"]["holderIdentity"], "b");
  EXPECT_NE(version_of(first.body), version_of(created));
  const Answer second = call(Method::kPut, path, lease_json(lease, "c", version_of(created)));
  EXPECT_EQ(second.code, 409) << second.text;
  EXPECT_EQ(second.body["reason"], "Conflict");
  EXPECT_EQ(get(path).body["spec"]["holderIdentity"], "b");
}

}  // namespace
}  // namespace mgpu::test
