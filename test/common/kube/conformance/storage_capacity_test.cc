// The CSIStorageCapacity that the extender annotates so that kube-scheduler requeues pods.
#include <string>

#include "common/kube/request.h"
#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

class StorageCapacityConformance : public Conformance {
 protected:
  Answer send(const kube::Request& request) {
    return call(request.method, request.target, request.body, request.content_type);
  }
  kube::StorageCapacity capacity(const std::string& value) {
    return {name_space(), "capacity", "no-such-class", "mgpu-requeue", value};
  }
};
INSTANTIATE_TEST_SUITE_P(Server, StorageCapacityConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

TEST_P(StorageCapacityConformance, IsCreatedOnceAndAnnotatedRepeatedly) {
  EXPECT_EQ(send(kube::annotate_storage_capacity(capacity("1"))).code, 404);
  const kube::Request creation = kube::create_storage_capacity(capacity("1"));
  const Json created = create(creation.target, creation.body);
  EXPECT_EQ(created["metadata"]["annotations"]["mgpu-requeue"], "1");
  EXPECT_EQ(created["storageClassName"], "no-such-class");
  EXPECT_EQ(send(creation).code, 409);
  const Answer changed = send(kube::annotate_storage_capacity(capacity("2")));
  EXPECT_EQ(changed.code, 200) << changed.text;
  EXPECT_EQ(changed.body["metadata"]["annotations"]["mgpu-requeue"], "2");
  EXPECT_NE(version_of(changed.body), version_of(created));
  const Answer same = send(kube::annotate_storage_capacity(capacity("2")));
  EXPECT_EQ(version_of(same.body), version_of(changed.body))
      << "the annotation was not changed, so there must be no event";
}

}  // namespace
}  // namespace mgpu::test
