// Objects and their verbs: create, get, update, patch, delete.
#include <string>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(ObjectsConformance);

const Json kLabelled = {{"metadata", {{"labels", {{"a", "b"}}}}}};

TEST_P(ObjectsConformance, ServerSetsUidTimeAndVersion) {
  const std::string node = name("node");
  Json object = Json::parse(node_json(node));
  object["metadata"]["uid"] = "mine";
  const Json created = create("/api/v1/nodes", object.dump());
  const Json& metadata = created["metadata"];
  EXPECT_EQ(created["kind"], "Node");
  EXPECT_EQ(created["apiVersion"], "v1");
  EXPECT_EQ(metadata["uid"].get<std::string>().size(), 36U);
  EXPECT_EQ(metadata["creationTimestamp"].get<std::string>().size(), 20U);
  EXPECT_FALSE(version_of(created).empty());
  EXPECT_EQ(get(node_path(node)).body, created);
}

TEST_P(ObjectsConformance, VersionChangesWithEveryWrite) {
  const std::string node = name("node");
  const Json created = create_node(node);
  const Json patched = merge(node_path(node), kLabelled).body;
  EXPECT_NE(version_of(patched), version_of(created));
  EXPECT_EQ(patched["metadata"]["uid"], created["metadata"]["uid"]);
  EXPECT_EQ(patched["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
}

TEST_P(ObjectsConformance, PatchThatChangesNothingKeepsTheVersion) {
  const std::string node = name("node");
  const Json created = create_node(node);
  const Answer answer = merge(node_path(node), Json::object());
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(version_of(answer.body), version_of(created));
}

TEST_P(ObjectsConformance, RefusesToCreateAnExistingObject) {
  const std::string node = name("node");
  create_node(node);
  const Answer answer = post("/api/v1/nodes", node_json(node));
  EXPECT_EQ(answer.code, 409);
  EXPECT_EQ(answer.body["reason"], "AlreadyExists");
  EXPECT_EQ(answer.body["message"], "nodes \"" + node + "\" already exists");
}

TEST_P(ObjectsConformance, RefusesToCreateWithAVersion) {
  Json object = Json::parse(node_json(name("node")));
  object["metadata"]["resourceVersion"] = "5";
  EXPECT_EQ(post("/api/v1/nodes", object.dump()).code, 500);
}

TEST_P(ObjectsConformance, MissingObjectsAre404WithAStatus) {
  const Answer answer = get(node_path("none-such"));
  EXPECT_EQ(answer.code, 404);
  EXPECT_EQ(answer.body["kind"], "Status");
  EXPECT_EQ(answer.body["status"], "Failure");
  EXPECT_EQ(answer.body["reason"], "NotFound");
  EXPECT_EQ(answer.body["code"], 404);
  EXPECT_EQ(answer.body["details"], Json({{"name", "none-such"}, {"kind", "nodes"}}));
  EXPECT_EQ(answer.body["message"], "nodes \"none-such\" not found");
  EXPECT_EQ(merge(node_path("none-such"), kLabelled).code, 404);
  EXPECT_EQ(put(node_path("none-such"), Json::parse(node_json("none-such"))).code, 404);
  EXPECT_EQ(remove(node_path("none-such")).code, 404);
}

TEST_P(ObjectsConformance, UnknownPathsAndMethodsAreRefused) {
  struct Case {
    Method method;
    std::string target;
    int code;
  };
  const Case cases[] = {
      {Method::kGet, "/api/v1/foos", 404},
      {Method::kGet, "/nowhere", 404},
      {Method::kGet, pod_path("x") + "/foo", 404},
      {Method::kPut, pods(), 405},
      {Method::kPost, node_path("x"), 405},
      {Method::kPost, "/api/v1/pods", 405},
      {Method::kDelete, node_path("x") + "/status", 405},
  };
  for (const Case& c : cases) {
    const Answer answer = call(c.method, c.target, c.method == Method::kGet ? "" : "{}");
    EXPECT_EQ(answer.code, c.code) << c.target << "\n" << answer.text;
  }
}

TEST_P(ObjectsConformance, BodiesThatAreNotAnObjectOfTheKindAre400) {
  const std::string deep = R"({"metadata":{"name":"x"},"x":)" + std::string(20'000, '[') +
                           std::string(20'000, ']') + "}";
  const std::string bodies[] = {
      "{bad",
      "[]",
      "\"text\"",
      deep,
      pod_json("x"),
      R"({"metadata":"x"})",
      R"({"metadata":{"name":5}})",
      R"({"metadata":{"name":"x","annotations":{"a":5}}})",
      R"({"metadata":{"name":"x"},"status":{"capacity":{"cpu":"many"}}})",
      R"({"metadata":{"name":"x"},"status":{"capacity":["cpu"]}})",
  };
  for (const std::string& body : bodies) {
    const Answer answer = post("/api/v1/nodes", body);
    EXPECT_EQ(answer.code, 400) << body.substr(0, 100) << "\n" << answer.text.substr(0, 300);
    EXPECT_EQ(answer.body["reason"], "BadRequest") << body.substr(0, 100);
  }
}

TEST_P(ObjectsConformance, BodiesOverTheLimitAre413) {
  Json object = Json::parse(node_json(name("node")));
  object["spec"]["providerID"] = std::string(4 << 20, 'x');
  EXPECT_EQ(post("/api/v1/nodes", object.dump()).code, 413);
}

TEST_P(ObjectsConformance, ObjectsOverTheLimitOfEtcdAreRefused) {
  Json object = Json::parse(node_json(name("node")));
  object["spec"]["providerID"] = std::string(2 << 20, 'x');
  EXPECT_EQ(post("/api/v1/nodes", object.dump()).code, 500);
}

TEST_P(ObjectsConformance, NamesAndAnnotationsAreValidated) {
  const auto with = [&](const std::string& key, const std::string& value) {
    Json object = Json::parse(node_json(name("node")));
    object["metadata"]["annotations"] = {{key, value}};
    return object;
  };
  const Json cases[] = {
      Json::parse(node_json("Bad_Name")),   Json::parse(node_json("")),
      Json::parse(node_json("-a")),         with("bad key", ""),
      with(std::string(64, 'k'), ""),       with("/k", ""),
      with("k", std::string(300'000, 'x')),
  };
  for (const Json& object : cases) {
    const Answer answer = post("/api/v1/nodes", object.dump());
    EXPECT_EQ(answer.code, 422) << object.dump().substr(0, 100) << answer.text.substr(0, 300);
    EXPECT_EQ(answer.body["reason"], "Invalid");
  }
  create("/api/v1/nodes", with(std::string(63, 'k'), "").dump());
  create("/api/v1/nodes", with("example.com/" + std::string(63, 'k'), "").dump());
}

TEST_P(ObjectsConformance, NameIsGeneratedFromAPrefix) {
  Json object = Json::parse(pod_json(""));
  object["metadata"] = {{"generateName", "made-"}};
  const Json created = create(pods(), object.dump());
  const std::string made = created["metadata"]["name"];
  EXPECT_TRUE(made.starts_with("made-"));
  EXPECT_EQ(made.size(), 10U);
}

TEST_P(ObjectsConformance, UpdateWithAVersionNeedsTheNewestOne) {
  const std::string node = name("node");
  Json object = create_node(node);
  object["metadata"]["labels"] = {{"a", "b"}};
  const Answer updated = put(node_path(node), object);
  EXPECT_EQ(updated.code, 200) << updated.text;
  EXPECT_EQ(updated.body["metadata"]["labels"]["a"], "b");
  const Answer stale = put(node_path(node), object);
  EXPECT_EQ(stale.code, 409) << stale.text;
  EXPECT_EQ(stale.body["reason"], "Conflict");
  object["metadata"].erase("resourceVersion");
  EXPECT_EQ(put(node_path(node), object).code, 200);
  EXPECT_EQ(merge(node_path(node), {{"metadata", {{"resourceVersion", "5"}}}}).code, 409);
}

TEST_P(ObjectsConformance, UpdateOfAnotherUidOrNameIsRefused) {
  const std::string node = name("node");
  Json object = create_node(node);
  object["metadata"]["uid"] = "another";
  EXPECT_EQ(put(node_path(node), object).code, 409);
  EXPECT_EQ(merge(node_path(node), {{"metadata", {{"uid", "another"}}}}).code, 422);
  EXPECT_EQ(put(node_path(node), Json::parse(node_json("another"))).code, 400);
  EXPECT_EQ(merge(node_path(node), {{"metadata", {{"name", "another"}}}}).code, 400);
}

TEST_P(ObjectsConformance, MergePatchRemovesNullMembers) {
  const std::string node = name("node");
  create_node(node);
  merge(node_path(node), {{"metadata", {{"annotations", {{"a", "1"}, {"b", "2"}}}}}});
  const Answer answer = merge(node_path(node), {{"metadata", {{"annotations", {{"a", nullptr}}}}}});
  EXPECT_EQ(answer.body["metadata"]["annotations"], Json({{"b", "2"}})) << answer.text;
}

TEST_P(ObjectsConformance, InvalidPatchesAreRefused) {
  const std::string node = name("node");
  create_node(node);
  struct Case {
    const char* type;
    const char* body;
    int code;
  };
  const Case cases[] = {
      {"application/json", "{}", 415},
      {"text/plain", "{}", 415},
      {"application/merge-patch+json", "zzz", 400},
      {"application/merge-patch+json", R"({"metadata":{"annotations":{"bad key":"x"}}})", 422},
      {"application/merge-patch+json", R"({"metadata":{"annotations":{"a":5}}})", 422},
  };
  for (const Case& c : cases) {
    const Answer answer = call(Method::kPatch, node_path(node), c.body, c.type);
    EXPECT_EQ(answer.code, c.code) << c.type << " " << c.body << "\n" << answer.text;
  }
}

TEST_P(ObjectsConformance, StrategicMergePatchOfMapsIsAMerge) {
  const std::string pod = name("pod");
  create_pod(pod);
  const Answer answer = call(Method::kPatch, pod_path(pod), kLabelled.dump(),
                             "application/strategic-merge-patch+json");
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(answer.body["metadata"]["labels"]["a"], "b");
}

TEST_P(ObjectsConformance, DeleteOfANodeIsAtOnce) {
  const std::string node = name("node");
  create_node(node);
  const Answer answer = call(Method::kDelete, node_path(node));
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body["status"], "Success");
  EXPECT_EQ(get(node_path(node)).code, 404);
  const Json again = create_node(node);
  EXPECT_NE(again["metadata"]["uid"], answer.body["details"]["uid"]);
}

TEST_P(ObjectsConformance, DeletePreconditionsThatFailAre409) {
  const std::string node = name("node");
  const Json created = create_node(node);
  const auto try_delete = [&](const Json& preconditions) {
    return call(Method::kDelete, node_path(node), Json{{"preconditions", preconditions}}.dump());
  };
  EXPECT_EQ(try_delete({{"uid", "another"}}).code, 409);
  EXPECT_EQ(try_delete({{"resourceVersion", "1"}}).code, 409);
  EXPECT_EQ(try_delete({{"uid", created["metadata"]["uid"]}}).code, 200);
}

TEST_P(ObjectsConformance, DryRunChangesNothing) {
  const std::string node = name("node");
  EXPECT_EQ(post("/api/v1/nodes?dryRun=All", node_json(node)).code, 201);
  EXPECT_EQ(get(node_path(node)).code, 404);
  const Json created = create_node(node);
  const Answer patched = merge(node_path(node) + "?dryRun=All", kLabelled);
  EXPECT_EQ(patched.body["metadata"]["labels"]["a"], "b");
  EXPECT_EQ(call(Method::kDelete, node_path(node) + "?dryRun=All").code, 200);
  EXPECT_EQ(get(node_path(node)).body, created);
}

TEST_P(ObjectsConformance, DisruptionBudgetsHaveAStatusSubresource) {
  const std::string budgets =
      "/apis/policy/v1/namespaces/" + name_space() + "/poddisruptionbudgets";
  const std::string budget = name("budget");
  const Json created = create(budgets, Json{{"metadata", {{"name", budget}}},
                                            {"spec", {{"minAvailable", 1}}},
                                            {"status", {{"disruptionsAllowed", 3}}}}
                                           .dump());
  EXPECT_EQ(created["status"]["disruptionsAllowed"], 0);
  const Answer patched =
      merge(budgets + "/" + budget + "/status", {{"status", {{"disruptionsAllowed", 2}}}});
  EXPECT_EQ(patched.body["status"]["disruptionsAllowed"], 2) << patched.text;
  EXPECT_EQ(patched.body["kind"], "PodDisruptionBudget");
  EXPECT_EQ(patched.body["apiVersion"], "policy/v1");
  const Json list = get("/apis/policy/v1/poddisruptionbudgets").body;
  EXPECT_EQ(list["kind"], "PodDisruptionBudgetList");
}

TEST_P(ObjectsConformance, EventsAreStored) {
  const std::string events = "/api/v1/namespaces/" + name_space() + "/events";
  const Json event = {
      {"metadata", {{"name", name("event")}}},
      {"involvedObject", {{"kind", "Pod"}, {"name", "p"}, {"namespace", name_space()}}},
      {"reason", "Tested"},
      {"message", "it was"},
      {"type", "Normal"},
      {"count", 1}};
  const Json created = create(events, event.dump());
  EXPECT_EQ(created["reason"], "Tested");
  EXPECT_EQ(created["involvedObject"]["name"], "p");
}

}  // namespace
}  // namespace mgpu::test
