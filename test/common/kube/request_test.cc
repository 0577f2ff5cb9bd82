#include "common/kube/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Request, ListsTheFirstPageFromTheNewestState) {
  const Request request = list(all_nodes(), 500, "");
  EXPECT_EQ(request.method, Method::kGet);
  EXPECT_EQ(request.target, "/api/v1/nodes?limit=500");
  EXPECT_EQ(request.body, "");
}

TEST(Request, ListsALaterPageWithTheSameSelectorAndTheToken) {
  EXPECT_EQ(list(bound_pods(), 10, "a+/=").target,
            "/api/v1/pods?limit=10&fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded"
            "%2Cstatus.phase%21%3DFailed&continue=a%2B%2F%3D");
}

TEST(Request, WatchesWithBookmarksFromAVersion) {
  EXPECT_EQ(watch({"/api/v1/pods", "a=b"}, "7&x", std::chrono::seconds(301)).target,
            "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=7%26x"
            "&timeoutSeconds=301&fieldSelector=a%3Db");
}

TEST(QueryText, KeepsUnreservedCharactersAndEncodesOthers) {
  EXPECT_EQ(query_text("aZ0-._~"), "aZ0-._~");
  EXPECT_EQ(query_text("a b&c=d/e+f%"), "a%20b%26c%3Dd%2Fe%2Bf%25");
  EXPECT_EQ(query_text("\xC3\xA9\n"), "%C3%A9%0A");
}

TEST(Request, KeepsHostileNamesInsideTheirPathSegment) {
  const std::pair<std::string, std::string> cases[] = {
      {"a/b", "a%2Fb"}, {"..", "%2E%2E"},       {".", "%2E"},           {"a?b#c", "a%3Fb%23c"},
      {"a b", "a%20b"}, {"a\r\nb", "a%0D%0Ab"}, {"\xC3\xA9", "%C3%A9"}, {"a.b-c_d~", "a.b-c_d~"}};
  for (const auto& [name, encoded] : cases) {
    EXPECT_EQ(get_pod({"ns", name}).target, "/api/v1/namespaces/ns/pods/" + encoded);
    EXPECT_EQ(get_pod({name, "p"}).target, "/api/v1/namespaces/" + encoded + "/pods/p");
    EXPECT_EQ(get_node(NodeName(name)).target, "/api/v1/nodes/" + encoded);
    EXPECT_EQ(annotate_storage_capacity({name, name, "", "", ""}).target,
              "/apis/storage.k8s.io/v1/namespaces/" + encoded + "/csistoragecapacities/" + encoded);
  }
}

TEST(Request, BindsWithUidAndAnnotationsInOneWrite) {
  const Request request =
      bind({{"ml", "train"}, PodUid("u-1"), NodeName("n1"), {{"d/a", "0,2"}, {"d/b", "true"}}});
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.target, "/api/v1/namespaces/ml/pods/train/binding");
  EXPECT_EQ(request.content_type, "application/vnd.kubernetes.protobuf");
  EXPECT_TRUE(request.protobuf);
  const auto binding = read_binding_protobuf(request.body);
  ASSERT_TRUE(binding) << binding.error().message;
  EXPECT_EQ(to_string(binding->pod), "ml/train");
  EXPECT_EQ(binding->uid, PodUid("u-1"));
  EXPECT_EQ(binding->node, NodeName("n1"));
  EXPECT_THAT(binding->annotations, ElementsAre(Pair("d/a", "0,2"), Pair("d/b", "true")));
  EXPECT_EQ(binding->resource_version, "");
}

TEST(Request, BindsWithAResourceVersionAsPrecondition) {
  const Binding binding{{"ml", "train"}, PodUid("u-1"), NodeName("n1"), {}, "42"};
  EXPECT_EQ(read_binding_protobuf(bind(binding).body)->resource_version, "42");
  EXPECT_EQ(dry_run_bind(binding).target, "/api/v1/namespaces/ml/pods/train/binding?dryRun=All");
  EXPECT_EQ(dry_run_bind(binding).body, bind(binding).body);
}

TEST(Request, ListsAndWatchesPodsInProtobufWhereTheReaderReadsIt) {
  EXPECT_FALSE(list(bound_pods(), 1, "").protobuf);
  EXPECT_FALSE(watch(bound_pods(), "1", std::chrono::seconds(1)).protobuf);
  const Resource pods = in_protobuf(bound_pods());
  EXPECT_TRUE(list(pods, 1, "").protobuf);
  EXPECT_TRUE(watch(pods, "1", std::chrono::seconds(1)).protobuf);
  EXPECT_EQ(list(pods, 1, "").target, list(bound_pods(), 1, "").target);
}

TEST(Request, ChangesOneConditionOfAPod) {
  const Request request = set_pod_condition({"ml", "train"}, {"d/checked", "a-1"});
  EXPECT_EQ(request.method, Method::kPatch);
  EXPECT_EQ(request.target, "/api/v1/namespaces/ml/pods/train/status");
  EXPECT_EQ(request.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(request.body,
            R"({"status":{"conditions":[{"type":"d/checked","status":"True","message":"a-1"}]}})");
}

TEST(Request, ReadsAndWritesALease) {
  Lease lease;
  lease.ref = {"ns", "l"};
  lease.resource_version = "7";
  lease.holder = "me";
  const std::string collection = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
  EXPECT_EQ(get_lease(lease.ref).target, collection + "/l");
  const Request put = write_lease(lease);
  EXPECT_EQ(put.method, Method::kPut);
  EXPECT_EQ(put.target, collection + "/l");
  EXPECT_EQ(put.body,
            R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l",)"
            R"("namespace":"ns","resourceVersion":"7"},"spec":{"holderIdentity":"me"}})");
  lease.resource_version.clear();
  const Request post = write_lease(lease);
  EXPECT_EQ(post.method, Method::kPost);
  EXPECT_EQ(post.target, collection);
  EXPECT_EQ(post.body,
            R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l",)"
            R"("namespace":"ns"},"spec":{"holderIdentity":"me"}})");
}

TEST(Request, ReadsAndWritesASecret) {
  const ObjectRef secret{"ns", "s"};
  EXPECT_EQ(get_secret(secret).target, "/api/v1/namespaces/ns/secrets/s");
  const Request post = create_secret(secret, {{"key", "a"}});
  EXPECT_EQ(post.method, Method::kPost);
  EXPECT_EQ(post.target, "/api/v1/namespaces/ns/secrets");
  EXPECT_EQ(post.body, R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"s",)"
                       R"("namespace":"ns"},"type":"Opaque","data":{"key":"YQ=="}})");
  const Request patch = change_secret(secret, "7", {{"key", "a"}});
  EXPECT_EQ(patch.method, Method::kPatch);
  EXPECT_EQ(patch.target, "/api/v1/namespaces/ns/secrets/s");
  EXPECT_EQ(patch.content_type, "application/merge-patch+json");
  EXPECT_EQ(patch.body, R"({"metadata":{"resourceVersion":"7"},"data":{"key":"YQ=="}})");
}

TEST(Request, SelectsPodsThatMayStillBeBound) {
  EXPECT_EQ(unbound_pods().field_selector,
            "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed");
}

TEST(Request, ListsWithSelectors) {
  EXPECT_EQ(list({"/api/v1/pods", "spec.nodeName=n", "app in (a,b)"}, 5, "t/1").target,
            "/api/v1/pods?limit=5&fieldSelector=spec.nodeName%3Dn&labelSelector=app%20in%20%28a%2Cb"
            "%29&continue=t%2F1");
  EXPECT_EQ(list({"/api/v1/pods", ""}, 5, "").target, "/api/v1/pods?limit=5");
}

const StorageCapacity kCapacity{"kube-system", "capacity", "none", "mgpu-requeue", "a\"1"};

TEST(Request, CreatesAStorageCapacity) {
  const Request request = create_storage_capacity(kCapacity);
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.target, "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities");
  EXPECT_EQ(request.content_type, "application/json");
  EXPECT_EQ(request.body, R"({"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity",)"
                          R"("metadata":{"name":"capacity","namespace":"kube-system",)"
                          R"("annotations":{"mgpu-requeue":"a\"1"}},"storageClassName":"none"})");
}

TEST(Request, AnnotatesAStorageCapacityAndNothingElseOfIt) {
  const Request request = annotate_storage_capacity(kCapacity);
  EXPECT_EQ(request.method, Method::kPatch);
  EXPECT_EQ(request.target,
            "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities/capacity");
  EXPECT_EQ(request.content_type, "application/merge-patch+json");
  EXPECT_EQ(request.body, R"({"metadata":{"annotations":{"mgpu-requeue":"a\"1"}}})");
}

TEST(Request, WritesABindingThatReadsBackForAnyNames) {
  const std::string hostile = "\"},\\ \n\x01\xC3\xA9";
  const Request request =
      bind({{hostile, hostile}, PodUid(hostile), NodeName(hostile), {{hostile, hostile}}});
  const auto read = read_binding_protobuf(request.body);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->pod.name, hostile);
  EXPECT_EQ(read->uid, PodUid(hostile));
  EXPECT_EQ(read->node, NodeName(hostile));
  EXPECT_EQ(read->annotations.at(hostile), hostile);
}

}  // namespace
}  // namespace mgpu::kube
