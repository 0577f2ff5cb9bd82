// Requests whose answers may be in protobuf, and bindings in protobuf. The in-memory API server
// answers in JSON.
#include <gmock/gmock.h>

#include <string>

#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"
#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

class ProtobufConformance : public Conformance {
 protected:
  kube::Resource one_pod(const std::string& pod) {
    return kube::in_protobuf({.path = pods(), .field_selector = "metadata.name=" + pod});
  }
  bool is_real() const { return GetParam() == "real"; }
  kube::Encoding encoding() const {
    return is_real() ? kube::Encoding::kProtobuf : kube::Encoding::kJson;
  }
  Result<kube::Pod> read_pod(const std::string& object) const {
    return is_real() ? kube::read_pod_protobuf(object) : kube::read_pod(object);
  }
  kube::Binding binding_of(const std::string& pod, const std::string& version = "") {
    return {.pod = {name_space(), pod},
            .uid = PodUid(get(pod_path(pod)).body["metadata"]["uid"].get<std::string>()),
            .node = NodeName("n1"),
            .annotations = {{"d/a", "0,2"}},
            .resource_version = version};
  }
};
INSTANTIATE_TEST_SUITE_P(Server, ProtobufConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

TEST_P(ProtobufConformance, ListsPods) {
  const std::string pod = name("pod");
  create_pod(pod, {{"example.com/card", "2"}});
  const kube::Response answer = send(kube::list(one_pod(pod), 10, ""));
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.encoding, encoding());
  const auto page =
      is_real() ? kube::read_pod_list_protobuf(answer.body) : kube::read_list_page(answer.body);
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->items.size(), 1);
  const auto read = read_pod(page->items.front());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata.name, pod);
  EXPECT_EQ(read->containers.front().limits.at("example.com/card"), "2");
}

TEST_P(ProtobufConformance, WatchesPods) {
  const std::string pod = name("pod");
  const std::string version = version_of(get(pods() + "?limit=1").body);
  create_pod(pod);
  EXPECT_EQ(send(kube::bind(binding_of(pod))).status, 201);
  const auto log = watch(kube::watch(one_pod(pod), version, std::chrono::seconds(20)));
  ASSERT_TRUE(log->opened());
  EXPECT_EQ(log->encoding(), encoding());
  for (const char* const node : {"", "n1"}) {
    const auto text = log->next();
    ASSERT_TRUE(text);
    const auto event =
        is_real() ? kube::read_pod_event_protobuf(*text) : kube::read_watch_line(*text);
    ASSERT_TRUE(event) << event.error().message;
    const auto read = read_pod(event->object);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->metadata.name, pod);
    EXPECT_EQ(read->metadata.resource_version, event->resource_version);
    EXPECT_EQ(read->node_name, node);
  }
}

TEST_P(ProtobufConformance, BindsWithAnnotations) {
  const std::string pod = name("pod");
  create_pod(pod);
  EXPECT_EQ(send(kube::bind(binding_of(pod))).status, 201);
  const Json bound = get(pod_path(pod)).body;
  EXPECT_EQ(bound["spec"]["nodeName"], "n1");
  EXPECT_EQ(bound["metadata"]["annotations"]["d/a"], "0,2");
}

TEST_P(ProtobufConformance, RefusesABindingOfAnotherVersion) {
  const std::string pod = name("pod");
  create_pod(pod);
  for (const kube::Request& request :
       {kube::bind(binding_of(pod, "1")), kube::dry_run_bind(binding_of(pod, "1"))}) {
    const kube::ApiError error = kube::api_error(send(request));
    EXPECT_EQ(error.kind, kube::ApiError::Kind::kConflict) << error.message;
    EXPECT_THAT(error.message, testing::HasSubstr("HTTP 409 Conflict: "));
  }
}

TEST_P(ProtobufConformance, DoesNotFindAPodThatDoesNotExist) {
  kube::Request request = kube::get_pod({name_space(), "absent"});
  request.protobuf = true;
  const kube::Response answer = send(std::move(request));
  EXPECT_EQ(answer.encoding, encoding());
  const kube::ApiError error = kube::api_error(answer);
  EXPECT_EQ(error.kind, kube::ApiError::Kind::kNotFound) << error.message;
  EXPECT_THAT(error.message, testing::HasSubstr("HTTP 404 NotFound: pods "));
}

}  // namespace
}  // namespace mgpu::test
