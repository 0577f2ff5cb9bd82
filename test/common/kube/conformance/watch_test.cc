// Watches: their first version, their events and their end.
#include <string>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

class WatchConformance : public Conformance {
 protected:
  std::string version_now() { return version_of(get(pods() + "?limit=1").body); }
  std::unique_ptr<WatchLog> watch_pods(const std::string& selector) {
    return watch(pods() + "?watch=1&resourceVersion=" + version_now() +
                 "&timeoutSeconds=20&fieldSelector=" + selector);
  }
};
INSTANTIATE_TEST_SUITE_P(Server, WatchConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

void expect_event(const Json& event, const std::string& type, const std::string& name) {
  ASSERT_TRUE(event.is_object()) << "the watch ended";
  EXPECT_EQ(event["type"], type) << event.dump();
  EXPECT_EQ(event["object"]["metadata"]["name"], name) << event.dump();
}

TEST_P(WatchConformance, SendsEventsFromAVersionOn) {
  const std::string before = name("before");
  create_pod(before);
  const auto log = watch_pods("");
  ASSERT_TRUE(log->opened());
  const std::string pod = name("pod");
  const Json created = create_pod(pod);
  bind(pod, "n1");
  remove(pod_path(pod));
  Json event = next_event(*log);
  expect_event(event, "ADDED", pod);
  EXPECT_EQ(version_of(event["object"]), version_of(created));
  EXPECT_EQ(event["object"]["kind"], "Pod");
  EXPECT_EQ(event["object"]["apiVersion"], "v1");
  event = next_event(*log);
  expect_event(event, "MODIFIED", pod);
  EXPECT_EQ(event["object"]["spec"]["nodeName"], "n1");
  const std::string bound = version_of(event["object"]);
  do {  // A real server announces the end of a bound pod first.
    event = next_event(*log);
  } while (event.is_object() && event["type"] == "MODIFIED");
  expect_event(event, "DELETED", pod);
  EXPECT_EQ(event["object"]["spec"]["nodeName"], "n1");
  EXPECT_NE(version_of(event["object"]), bound);
}

TEST_P(WatchConformance, SendsEventsFromBeforeItBegan) {
  const std::string version = version_now();
  const std::string pod = name("pod");
  create_pod(pod);
  merge(pod_path(pod), {{"metadata", {{"labels", {{"a", "b"}}}}}});
  const auto log = watch(pods() + "?watch=true&resourceVersion=" + version);
  expect_event(next_event(*log), "ADDED", pod);
  expect_event(next_event(*log), "MODIFIED", pod);
}

TEST_P(WatchConformance, WithoutAVersionBeginsWithTheExistingObjects) {
  const std::string node = name("node");
  create_node(node);
  for (const char* const version : {"", "&resourceVersion=0"}) {
    get("/api/v1/nodes");  // A real server's cache has caught up when this is answered.
    const auto log = watch("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D" + node + version);
    expect_event(next_event(*log), "ADDED", node);
  }
}

TEST_P(WatchConformance, PatchWithoutAChangeIsNoEvent) {
  const std::string pod = name("pod");
  create_pod(pod);
  const auto log = watch_pods("metadata.name%3D" + pod);
  ASSERT_TRUE(log->opened());
  EXPECT_EQ(merge(pod_path(pod), Json::object()).code, 200);
  merge(pod_path(pod), {{"metadata", {{"labels", {{"a", "b"}}}}}});
  const Json event = next_event(*log);
  expect_event(event, "MODIFIED", pod);
  EXPECT_EQ(event["object"]["metadata"]["labels"]["a"], "b");
}

TEST_P(WatchConformance, ObjectThatStartsToMatchIsAdded) {
  const std::string pod = name("pod");
  const std::string node = name("node");
  create_pod(pod);
  const auto log = watch_pods("spec.nodeName%3D" + node);
  ASSERT_TRUE(log->opened());
  bind(pod, node);
  const Json event = next_event(*log);
  expect_event(event, "ADDED", pod);
  EXPECT_EQ(event["object"]["spec"]["nodeName"], node);
}

TEST_P(WatchConformance, ObjectThatStopsToMatchIsDeletedAsItWasWithTheNewVersion) {
  const std::string pod = name("pod");
  create_pod(pod);
  bind(pod, "n1");
  const auto log = watch_pods("spec.nodeName!%3D,status.phase!%3DSucceeded,status.phase!%3DFailed");
  ASSERT_TRUE(log->opened());
  const Json finished =
      merge(pod_path(pod) + "/status", {{"status", {{"phase", "Succeeded"}}}}).body;
  const Json event = next_event(*log);
  expect_event(event, "DELETED", pod);
  EXPECT_EQ(event["object"]["status"]["phase"], "Pending");
  EXPECT_EQ(version_of(event["object"]), version_of(finished));
}

TEST_P(WatchConformance, EventsOutsideTheSelectionAreNotSent) {
  const std::string wanted = name("pod");
  const auto log = watch_pods("metadata.name%3D" + wanted);
  ASSERT_TRUE(log->opened());
  create_pod(name("other"));
  create_pod(wanted);
  expect_event(next_event(*log), "ADDED", wanted);
}

TEST_P(WatchConformance, EventsOfAllNamespacesAreSent) {
  const std::string pod = name("pod");
  const auto log = watch("/api/v1/pods?watch=1&timeoutSeconds=20&resourceVersion=" + version_now() +
                         "&fieldSelector=metadata.name%3D" + pod);
  ASSERT_TRUE(log->opened());
  create_pod(pod);
  expect_event(next_event(*log), "ADDED", pod);
}

TEST_P(WatchConformance, EndsAfterItsTimeout) {
  const auto log = watch("/api/v1/nodes?watch=1&timeoutSeconds=1&resourceVersion=" + version_now());
  const kube::Response end = log->end();
  EXPECT_EQ(end.status, 200);
  EXPECT_FALSE(end.failure) << end.failure->message;
}

// A real server sends one two seconds before the end, if anything was written since the beginning.
TEST_P(WatchConformance, BookmarkAdvancesTheVersionWithoutAnEvent) {
  const std::string version = version_now();
  create_pod(name("pod"));
  const auto log = watch(pods() + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=4" +
                         "&fieldSelector=metadata.name%3Dnone&resourceVersion=" + version);
  ASSERT_TRUE(log->opened());
  create_pod(name("pod"));
  const Json bookmark = next_event(*log);
  ASSERT_TRUE(bookmark.is_object());
  EXPECT_EQ(bookmark["type"], "BOOKMARK");
  EXPECT_EQ(bookmark["object"]["kind"], "Pod");
  EXPECT_EQ(bookmark["object"]["apiVersion"], "v1");
  EXPECT_NE(version_of(bookmark["object"]), version);

  const std::string late = name("late");
  create_pod(late);
  const auto next = watch(
      pods() + "?watch=1&timeoutSeconds=20&resourceVersion=" + version_of(bookmark["object"]));
  expect_event(next_event(*next), "ADDED", late);
}

TEST_P(WatchConformance, CompactedVersionIsAnErrorLineWith410) {
  create_pod(name("pod"));
  compact();
  const auto log = watch("/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=1");
  const Json event = next_event(*log);
  if (!event.is_object() || event["type"] != "ERROR") {
    GTEST_SKIP() << "this server still holds its whole history";
  }
  EXPECT_EQ(event["object"]["kind"], "Status");
  EXPECT_EQ(event["object"]["code"], 410);
  EXPECT_EQ(event["object"]["reason"], "Expired");
  EXPECT_EQ(log->end().status, 200);
}

TEST_P(WatchConformance, RefusesInvalidSelectorsAndTimeouts) {
  for (const char* const query : {"&fieldSelector=spec.foo%3Dx", "&timeoutSeconds=abc"}) {
    const kube::Response end =
        watch("/api/v1/nodes?watch=1&resourceVersion=" + version_now() + query)->end();
    EXPECT_EQ(end.status, 400) << query;
    EXPECT_EQ(Json::parse(end.body, nullptr, false)["reason"], "BadRequest") << end.body;
  }
}

TEST_P(WatchConformance, RefusesAnInvalidVersion) {
  EXPECT_EQ(watch("/api/v1/nodes?watch=1&resourceVersion=abc&timeoutSeconds=1")->end().status, 500);
}

TEST_P(WatchConformance, RefusesAnUnknownPath) {
  EXPECT_EQ(watch("/api/v1/foos?watch=1")->end().status, 404);
}

}  // namespace
}  // namespace mgpu::test
