// POST pods/{name}/binding: the one write that binds a pod.
#include <string>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(BindingConformance);

TEST_P(BindingConformance, SetsNodeAnnotationsAndConditionInOneWrite) {
  const std::string pod = name("pod");
  const Json created = create_pod(pod);
  const Answer bound = post(
      pod_path(pod) + "/binding",
      binding_json(pod, "n1", created["metadata"]["uid"].get<std::string>(), {{"a/b", "0,2"}}));
  EXPECT_EQ(bound.code, 201) << bound.text;
  EXPECT_EQ(bound.body["kind"], "Status");
  EXPECT_EQ(bound.body["status"], "Success");
  const Json after = get(pod_path(pod)).body;
  EXPECT_EQ(after["spec"]["nodeName"], "n1");
  EXPECT_EQ(after["metadata"]["annotations"], Json({{"a/b", "0,2"}}));
  EXPECT_NE(version_of(after), version_of(created));
  EXPECT_EQ(after["status"]["conditions"][0]["type"], "PodScheduled");
  EXPECT_EQ(after["status"]["conditions"][0]["status"], "True");
}

TEST_P(BindingConformance, MergesAnnotationsOverwritingEqualKeysAndKeepingOthers) {
  const std::string pod = name("pod");
  Json object = Json::parse(pod_json(pod));
  object["metadata"]["annotations"] = {{"kept", "old"}, {"both", "old"}};
  create(pods(), object.dump());
  const Answer bound = post(pod_path(pod) + "/binding",
                            binding_json(pod, "n1", "", {{"both", "new"}, {"added", "new"}}));
  EXPECT_EQ(bound.code, 201) << bound.text;
  EXPECT_EQ(get(pod_path(pod)).body["metadata"]["annotations"],
            Json({{"kept", "old"}, {"both", "new"}, {"added", "new"}}));
}

TEST_P(BindingConformance, NeedsNoNodeObject) {
  const std::string pod = name("pod");
  create_pod(pod);
  EXPECT_EQ(bind(pod, name("ghost")).code, 201);
}

TEST_P(BindingConformance, RefusesAnotherUidAndChangesNothing) {
  const std::string pod = name("pod");
  const Json created = create_pod(pod);
  const Answer answer = bind(pod, "n1", "another");
  EXPECT_EQ(answer.code, 409) << answer.text;
  EXPECT_EQ(answer.body["reason"], "Conflict");
  EXPECT_EQ(answer.body["details"]["kind"], "pods");
  EXPECT_EQ(version_of(get(pod_path(pod)).body), version_of(created));
}

TEST_P(BindingConformance, RefusesAnotherResourceVersion) {
  const std::string pod = name("pod");
  create_pod(pod);
  Json binding = Json::parse(binding_json(pod, "n1"));
  binding["metadata"]["resourceVersion"] = "1";
  const Answer answer = post(pod_path(pod) + "/binding", binding.dump());
  EXPECT_EQ(answer.code, 409) << answer.text;
  EXPECT_EQ(answer.body["details"]["kind"], "pods");
}

// The check of the extender's start rests on this: bound or not, the precondition comes first, and
// it holds in a dry run.
TEST_P(BindingConformance, RefusesAnotherResourceVersionInADryRunToo) {
  const std::string pod = name("pod");
  const std::string uid = create_pod(pod)["metadata"]["uid"];
  Json binding = Json::parse(binding_json(pod, "n1", uid));
  binding["metadata"]["resourceVersion"] = "1";
  for (const bool bound : {false, true}) {
    if (bound) {
      ASSERT_EQ(bind(pod, "n1", uid).code, 201);
    }
    const Answer answer = post(pod_path(pod) + "/binding?dryRun=All", binding.dump());
    EXPECT_EQ(answer.code, 409) << answer.text;
    EXPECT_NE(answer.text.find("ResourceVersion in precondition"), std::string::npos)
        << answer.text;
  }
}

TEST_P(BindingConformance, AcceptsTheResourceVersionOfThePod) {
  const std::string pod = name("pod");
  const Json created = create_pod(pod);
  Json binding = Json::parse(binding_json(pod, "n1"));
  binding["metadata"]["resourceVersion"] = version_of(created);
  EXPECT_EQ(post(pod_path(pod) + "/binding", binding.dump()).code, 201);
}

TEST_P(BindingConformance, RefusesAnOlderResourceVersionAfterAPatchOfTheStatus) {
  const std::string pod = name("pod");
  const Json created = create_pod(pod);
  const auto touch = [&](const std::string& message) {
    const Json condition = {
        {"type", "example.com/checked"}, {"status", "True"}, {"message", message}};
    return call(Method::kPatch, pod_path(pod) + "/status",
                Json{{"status", {{"conditions", {condition}}}}}.dump(),
                "application/strategic-merge-patch+json");
  };
  const Answer first = touch("a");
  ASSERT_EQ(first.code, 200) << first.text;
  EXPECT_NE(version_of(first.body), version_of(created));
  // A value that was used before changes nothing.
  EXPECT_EQ(version_of(touch("a").body), version_of(first.body));
  EXPECT_NE(version_of(touch("b").body), version_of(first.body));
  Json binding = Json::parse(binding_json(pod, "n1"));
  for (const Json& old : {created, first.body}) {
    binding["metadata"]["resourceVersion"] = version_of(old);
    const Answer answer = post(pod_path(pod) + "/binding", binding.dump());
    EXPECT_EQ(answer.code, 409) << answer.text;
  }
  EXPECT_FALSE(get(pod_path(pod)).body["spec"].contains("nodeName"));
}

TEST_P(BindingConformance, RefusesASecondBindAlsoToTheSameNode) {
  const std::string pod = name("pod");
  create_pod(pod);
  ASSERT_EQ(bind(pod, "n1").code, 201);
  for (const std::string node : {"n1", "n2"}) {
    const Answer answer = bind(pod, node);
    EXPECT_EQ(answer.code, 409) << answer.text;
    EXPECT_EQ(answer.body["details"]["kind"], "pods/binding");
    EXPECT_NE(answer.text.find("is already assigned to node"), std::string::npos);
  }
  EXPECT_EQ(get(pod_path(pod)).body["spec"]["nodeName"], "n1");
}

TEST_P(BindingConformance, RefusesAPodThatDoesNotExist) {
  const std::string pod = name("pod");
  const Answer answer = bind(pod, "n1");
  EXPECT_EQ(answer.code, 404) << answer.text;
  EXPECT_EQ(answer.body["reason"], "NotFound");
}

TEST_P(BindingConformance, RefusesAPodThatIsBeingDeleted) {
  const std::string pod = name("pod");
  create_pod(pod);
  ASSERT_EQ(bind(pod, "n1").code, 201);
  ASSERT_EQ(call(Method::kDelete, pod_path(pod)).code, 200);
  const Answer answer = bind(pod, "n1");
  EXPECT_EQ(answer.code, 409) << answer.text;
  EXPECT_EQ(answer.body["details"]["kind"], "pods/binding");
  EXPECT_NE(answer.text.find("is being deleted"), std::string::npos);
}

TEST_P(BindingConformance, RefusesAPodBehindSchedulingGates) {
  const std::string pod = name("pod");
  Json object = Json::parse(pod_json(pod));
  object["spec"]["schedulingGates"] = Json::array({{{"name", "example.com/gate"}}});
  create(pods(), object.dump());
  const Answer answer = bind(pod, "n1");
  EXPECT_EQ(answer.code, 409) << answer.text;
  EXPECT_EQ(answer.body["details"]["kind"], "pods/binding");
}

TEST_P(BindingConformance, RefusesABodyThatIsNotABindingOfThisPodToANode) {
  const std::string pod = name("pod");
  create_pod(pod);
  struct Case {
    std::string body;
    int code;
  };
  const std::string begin = R"({"metadata":{"name":")" + pod + R"("},"target":)";
  const Case cases[] = {
      {binding_json("another", "n1"), 400},
      {binding_json("", "n1"), 400},
      {begin + R"({"kind":"Node","name":""}})", 500},
      {begin + R"({"kind":"Pod","name":"n1"}})", 500},
      {"not json", 400},
      {"[]", 400},
      {R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}})", 400},
  };
  for (const Case& c : cases) {
    const Answer answer = post(pod_path(pod) + "/binding", c.body);
    EXPECT_EQ(answer.code, c.code) << c.body << "\n" << answer.text;
    EXPECT_EQ(answer.body["status"], "Failure") << c.body;
  }
  EXPECT_FALSE(get(pod_path(pod)).body["spec"].contains("nodeName"));
}

TEST_P(BindingConformance, TreatsATargetWithoutAKindAsANode) {
  const std::string pod = name("pod");
  create_pod(pod);
  const std::string body = R"({"metadata":{"name":")" + pod + R"("},"target":{"name":"n1"}})";
  EXPECT_EQ(post(pod_path(pod) + "/binding", body).code, 201);
}

TEST_P(BindingConformance, DryRunAnswersAndChangesNothing) {
  const std::string pod = name("pod");
  create_pod(pod);
  EXPECT_EQ(post(pod_path(pod) + "/binding?dryRun=All", binding_json(pod, "n1")).code, 201);
  EXPECT_FALSE(get(pod_path(pod)).body["spec"].contains("nodeName"));
  EXPECT_EQ(bind(pod, "n1").code, 201);
}

// This is why the extender checks the length of container names itself.
TEST_P(BindingConformance, AcceptsAnnotationKeysThatEveryLaterUpdateRefuses) {
  const std::string pod = name("pod");
  create_pod(pod);
  const std::string key = "example.com/" + std::string(64, 'k');
  const Answer bound = post(pod_path(pod) + "/binding", binding_json(pod, "n1", "", {{key, "0"}}));
  EXPECT_EQ(bound.code, 201) << bound.text;
  const Answer labelled = merge(pod_path(pod), {{"metadata", {{"labels", {{"a", "b"}}}}}});
  EXPECT_EQ(labelled.code, 422) << labelled.text;
  const Answer status = merge(pod_path(pod) + "/status", {{"status", {{"phase", "Running"}}}});
  EXPECT_EQ(status.code, 422) << status.text;
  EXPECT_NE(status.text.find("name part must be no more than 63 bytes"), std::string::npos)
      << status.text;
}

TEST_P(BindingConformance, AcceptsOnlyPost) {
  const std::string pod = name("pod");
  create_pod(pod);
  EXPECT_EQ(get(pod_path(pod) + "/binding").code, 405);
}

}  // namespace
}  // namespace mgpu::test
