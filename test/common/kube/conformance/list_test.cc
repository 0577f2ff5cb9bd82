// Lists: pages over one snapshot, continue tokens, field selectors.
#include <set>
#include <string>
#include <vector>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(ListConformance);

std::vector<std::string> names_of(const Json& list) {
  std::vector<std::string> names;
  for (const auto& item : list["items"]) names.push_back(item["metadata"]["name"]);
  return names;
}

std::string token_of(const Json& list) {
  return list["metadata"].value("continue", std::string());
}

// All tests share a namespace, since one per test would remain. The pods of the other tests are
// deleted by now.
TEST_P(ListConformance, PagesHoldOneSnapshotInOrderOfNames) {
  const std::string prefix = name("pod");
  for (const char* const end : {"-d", "-b", "-a", "-e", "-c"}) create_pod(prefix + end);
  const Json first = get(pods() + "?limit=2").body;
  EXPECT_EQ(first["kind"], "PodList");
  EXPECT_EQ(first["metadata"]["remainingItemCount"], 3) << first.dump();
  EXPECT_FALSE(first["items"][0].contains("kind"));

  create_pod(prefix + "-aa");
  merge(pod_path(prefix + "-c"), {{"metadata", {{"labels", {{"late", "yes"}}}}}});
  remove(pod_path(prefix + "-d"));
  const Json second = get(pods() + "?limit=2&continue=" + token_of(first)).body;
  EXPECT_EQ(second["metadata"]["remainingItemCount"], 1) << second.dump();
  const Json third = get(pods() + "?limit=2&continue=" + token_of(second)).body;

  EXPECT_EQ(names_of(first), (std::vector{prefix + "-a", prefix + "-b"}));
  EXPECT_EQ(names_of(second), (std::vector{prefix + "-c", prefix + "-d"}));
  EXPECT_EQ(names_of(third), (std::vector{prefix + "-e"}));
  EXPECT_FALSE(second["items"][0]["metadata"].contains("labels"));
  EXPECT_EQ(version_of(second), version_of(first));
  EXPECT_EQ(version_of(third), version_of(first));
  EXPECT_EQ(token_of(third), "");
  EXPECT_FALSE(third["metadata"].contains("remainingItemCount"));
}

TEST_P(ListConformance, PageOfASelectionHasNoRemainingItemCount) {
  const std::string prefix = name("pod");
  for (const char* const end : {"-a", "-b", "-c"}) create_pod(prefix + end);
  const std::string target = pods() + "?limit=2&fieldSelector=spec.nodeName%3D";
  const Json first = get(target).body;
  EXPECT_EQ(names_of(first), (std::vector{prefix + "-a", prefix + "-b"}));
  EXPECT_FALSE(first["metadata"].contains("remainingItemCount"));
  const Json second = get(target + "&continue=" + token_of(first)).body;
  EXPECT_EQ(names_of(second), std::vector{prefix + "-c"});
}

TEST_P(ListConformance, ListOfAnyVersionIsNotPaged) {
  const std::string prefix = name("pod");
  for (const char* const end : {"-a", "-b", "-c"}) create_pod(prefix + end);
  get(pods());  // A real server's cache has caught up when this is answered.
  const Json list = get(pods() + "?limit=1&resourceVersion=0").body;
  EXPECT_EQ(list["items"].size(), 3U) << list.dump();
  EXPECT_EQ(token_of(list), "");
}

TEST_P(ListConformance, EmptyListHasAVersionAndAnArray) {
  const Json list = get(pods() + "?fieldSelector=metadata.name%3Dnone").body;
  EXPECT_EQ(list["apiVersion"], "v1");
  EXPECT_EQ(list["items"], Json::array());
  EXPECT_FALSE(version_of(list).empty());
}

TEST_P(ListConformance, RefusesInvalidTokensLimitsAndVersions) {
  struct Case {
    const char* query;
    int code;
  };
  const Case cases[] = {
      {"?limit=1&continue=zzz", 400},
      {"?limit=abc", 400},
      {"?resourceVersion=abc", 400},
  };
  for (const Case& c : cases) {
    const Answer answer = get("/api/v1/nodes" + std::string(c.query));
    EXPECT_EQ(answer.code, c.code) << c.query << "\n" << answer.text;
    EXPECT_EQ(answer.body["reason"], "BadRequest") << c.query;
  }
}

TEST_P(ListConformance, FutureVersionIsATimeout) {
  const Answer answer = get("/api/v1/nodes?resourceVersion=900000000000000");
  EXPECT_EQ(answer.code, 504) << answer.text;
  EXPECT_EQ(answer.body["reason"], "Timeout");
}

TEST_P(ListConformance, ExpiredTokenIsAnsweredWithOneThatContinues) {
  // {"v":"meta.k8s.io/v1","rv":1,"start":"a"}: a real server's cache outlives the compaction for
  // tokens that it has just given, but never reaches back to its first version.
  constexpr const char* kFirstVersion = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0";
  const std::string prefix = name("pod");
  create_pod(prefix + "-a");
  create_pod(prefix + "-b");
  const Json first = get(pods() + "?limit=1").body;
  create_pod(prefix + "-aa");
  if (!compact()) GTEST_SKIP() << "MGPU_TEST_ETCD does not name the etcd to compact";
  const bool is_real = GetParam() == "real";
  const std::string token = is_real ? kFirstVersion : token_of(first);
  const Answer expired = get(pods() + "?limit=5&continue=" + token);
  EXPECT_EQ(expired.code, 410) << expired.text;
  EXPECT_EQ(expired.body["reason"], "Expired");
  std::vector<std::string> expected{prefix + "-aa", prefix + "-b"};
  if (is_real) expected.insert(expected.begin(), prefix + "-a");
  EXPECT_EQ(names_of(get(pods() + "?limit=5&continue=" + token_of(expired.body)).body), expected);
}

TEST_P(ListConformance, SelectsPodsByFields) {
  const std::string node = name("node");
  const std::string bound = name("bound");
  const std::string done = name("done");
  const std::string waiting = name("waiting");
  for (const std::string& pod : {bound, done, waiting}) create_pod(pod);
  for (const std::string& pod : {bound, done}) ASSERT_EQ(bind(pod, node).code, 201);
  merge(pod_path(done) + "/status", {{"status", {{"phase", "Succeeded"}}}});
  const std::string nominated = name("nominated");
  create_pod(nominated);
  merge(pod_path(nominated) + "/status", {{"status", {{"nominatedNodeName", node}}}});
  using Names = std::set<std::string>;
  struct Case {
    std::string selector;
    Names expected;
  };
  const Case cases[] = {
      {"metadata.name=" + waiting, {waiting}},
      {"metadata.name==" + waiting, {waiting}},
      {"metadata.namespace=" + name_space(), {bound, done, waiting, nominated}},
      {"metadata.namespace=other", {}},
      {"spec.nodeName=" + node, {bound, done}},
      {"spec.nodeName=", {waiting, nominated}},
      {"spec.nodeName!=" + node, {waiting, nominated}},
      {"spec.nodeName=,status.nominatedNodeName!=", {nominated}},
      {"spec.nodeName!=", {bound, done}},
      {"status.phase=Pending", {bound, waiting, nominated}},
      {"spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed", {bound}},
      {"spec.schedulerName=default-scheduler,metadata.name=" + bound, {bound}},
  };
  for (const Case& c : cases) {
    std::string encoded;
    for (const char ch : c.selector) {
      encoded += ch == '=' ? "%3D" : ch == '!' ? "%21" : ch == ',' ? "%2C" : std::string(1, ch);
    }
    const Answer answer = get(pods() + "?fieldSelector=" + encoded);
    const auto found = names_of(answer.body);
    EXPECT_EQ(Names(found.begin(), found.end()), c.expected) << c.selector;
  }
}

TEST_P(ListConformance, SelectsNodesByFields) {
  const std::string open = name("open");
  const std::string closed = name("closed");
  create_node(open);
  create_node(closed);
  merge(node_path(closed), {{"spec", {{"unschedulable", true}}}});
  const auto listed = names_of(get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").body);
  EXPECT_NE(std::find(listed.begin(), listed.end(), closed), listed.end());
  EXPECT_EQ(std::find(listed.begin(), listed.end(), open), listed.end());
  EXPECT_EQ(names_of(get("/api/v1/nodes?fieldSelector=metadata.name%3D" + open).body),
            std::vector{open});
}

TEST_P(ListConformance, RefusesSelectorsOfOtherFieldsAndWithoutOperator) {
  struct Case {
    const char* target;
    const char* message;
  };
  const Case cases[] = {
      {"/api/v1/nodes?fieldSelector=spec.foo%3Dx", "field label not supported: spec.foo"},
      {"/api/v1/pods?fieldSelector=metadata.uid%3Dx", "field label not supported: metadata.uid"},
      {"/api/v1/nodes?fieldSelector=zzz", "invalid selector: 'zzz'; can't understand 'zzz'"},
  };
  for (const Case& c : cases) {
    const Answer answer = get(c.target);
    EXPECT_EQ(answer.code, 400) << c.target;
    EXPECT_EQ(answer.body["message"], c.message);
  }
}

TEST_P(ListConformance, AllNamespacesAreListedTogether) {
  const std::string pod = name("pod");
  create_pod(pod);
  const Json list = get("/api/v1/pods?fieldSelector=metadata.name%3D" + pod).body;
  ASSERT_EQ(list["items"].size(), 1U) << list.dump();
  EXPECT_EQ(list["items"][0]["metadata"]["namespace"], name_space());
}

}  // namespace
}  // namespace mgpu::test
