// nodes, cards, pods, explain and simulate as users call them, with scripted servers in place of
// the API server and the extender.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test/extender/kubectl/fake_kubectl.h"
#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kCard =
    R"({"index": 0, "uuid": "GPU-1", "model": "A10", "healthy": true, "uncertain": false, "pods": 1,
        "core": {"capacity": 100, "used": 30, "free": 70, "expected": 0},
        "memoryMiB": {"capacity": 24000, "used": 8000, "free": 16000, "expected": 0}})";

std::string node_json(const std::string& name) {
  return R"({"name": ")" + name + R"(", "pods": 1, "cards": [)" + kCard + "]}";
}

constexpr const char* kGpuPod = R"({"metadata": {"name": "notebook", "namespace": "research",
    "annotations": {"vke.volcengine.com/gpu-index-container-app": "0"}},
    "spec": {"nodeName": "gpu-1", "containers": [{"name": "app", "resources": {"limits": {
      "vke.volcengine.com/mgpu-core": "30", "vke.volcengine.com/mgpu-memory": "8000"}}}]},
    "status": {"phase": "Running"}})";

class VerbsTest : public testing::Test {
 protected:
  VerbsTest() {
    cluster.extender.set("/readyz", R"({"ready": true})");
    cluster.extender.set("/inspect/cluster",
                         R"({"nodes": [)" + node_json("gpu-1") + "," + node_json("gpu-2") +
                             R"(, {"name": "cpu-1", "pods": 0, "cards": []}], "drift": []})");
    cluster.api.set("/api/v1/nodes?", list_of(R"({"metadata": {"name": "gpu-2"}})"));
    cluster.api.set("/api/v1/pods?", list_of(kGpuPod));
    cluster.api.set("/api/v1/namespaces/research/pods?", list_of(kGpuPod));
    cluster.api.set("/api/v1/namespaces/default/pods?", list_of(""));
  }
  ScriptedCluster cluster;
};

TEST_F(VerbsTest, NodesLeavesOutNodesWithoutCards) {
  const Ran ran = cluster.at_url({"nodes"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("gpu-1   OK"), HasSubstr("gpu-2"), Not(HasSubstr("cpu-1"))));
}

TEST_F(VerbsTest, NodesShowsThoseThatAreNamed) {
  const Ran ran = cluster.at_url({"nodes", "cpu-1", "-o", "name", "gpu-1"});
  EXPECT_EQ(ran.out, "node/cpu-1\nnode/gpu-1\n");
}

TEST_F(VerbsTest, NodesFollowsThePages) {
  cluster.extender.set("/inspect/cluster?limit=500&after=gpu-1",
                       R"({"nodes": [)" + node_json("gpu-2") + R"(], "drift": []})");
  cluster.extender.set("/inspect/cluster?limit=500&after=",
                       R"({"nodes": [)" + node_json("gpu-1") + R"(], "next": "gpu-1"})");
  EXPECT_EQ(cluster.at_url({"nodes", "-o", "name"}).out, "node/gpu-1\nnode/gpu-2\n");
}

TEST_F(VerbsTest, CardsSelectsNodesByTheirLabels) {
  const Ran ran = cluster.at_url({"cards", "-l", "pool in (a,b)", "-o", "name"});
  EXPECT_EQ(ran.out, "card/gpu-2/0\n");
  EXPECT_THAT(cluster.api.requests(),
              Contains("/api/v1/nodes?limit=500&labelSelector=pool%20in%20%28a%2Cb%29"));
}

TEST_F(VerbsTest, NamesANodeThatIsNotKnown) {
  const Ran ran = cluster.at_url({"cards", "no-such-node"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "kubectl mgpu: node \"no-such-node\" is not known to the extender\n");
}

TEST_F(VerbsTest, AnEmptyClusterIsOneSentence) {
  cluster.extender.set("/inspect/cluster", R"({"nodes": [], "drift": []})");
  for (const char* verb : {"nodes", "cards"}) {
    const Ran ran = cluster.at_url({verb});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_EQ(ran.err, "The extender has no node with cards.\n");
  }
}

TEST_F(VerbsTest, PodsReadsTheNamespaceOfTheContext) {
  EXPECT_EQ(cluster.with_config({"pods"}).err, "No pods that request cards found.\n");
  cluster.write_config(", namespace: research");
  EXPECT_EQ(cluster.with_config({"pods", "--pending", "-o", "name"}).out, "");
  EXPECT_EQ(cluster.with_config({"pods", "-o", "name"}).out, "pod/notebook\n");
}

TEST_F(VerbsTest, PodsReadsTheNamespaceOfTheFlagAndOfAll) {
  EXPECT_THAT(cluster.with_config({"pods", "-n", "research", "-l", "app=x"}).out,
              AllOf(StartsWith("NAME "), HasSubstr("notebook   Running   gpu-1   0 ")));
  EXPECT_THAT(cluster.api.requests(),
              Contains("/api/v1/namespaces/research/pods?limit=500&fieldSelector="
                       "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&"
                       "labelSelector=app%3Dx"));
  EXPECT_THAT(cluster.with_config({"pods", "-A"}).out,
              AllOf(StartsWith("NAMESPACE "), HasSubstr("research    notebook")));
}

TEST_F(VerbsTest, PodsSumsThoseOfEachOwner) {
  const Ran ran = cluster.with_config({"pods", "-A", "--by", "owner"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("research    Pod/notebook      1             0     30"));
}

TEST_F(VerbsTest, ColorsAreOnATerminalUnlessTheFlagSaysMore) {
  EXPECT_THAT(cluster.at_url({"nodes"}).out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(cluster.at_url({"nodes", "--color=always"}).out, HasSubstr("\x1b["));
}

TEST_F(VerbsTest, PodsNamesAPodThatIsNotThere) {
  const Ran ran = cluster.with_config({"pods", "-n", "research", "gone"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "kubectl mgpu: namespace \"research\" has no pod \"gone\" that requests cards and has "
            "not finished\n");
}

TEST_F(VerbsTest, SaysThatARightIsMissing) {
  cluster.api.set("/api/v1/pods?", R"({"kind": "Status", "message": "pods is forbidden"})", 403);
  const Ran ran = cluster.with_config({"pods", "-A"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "kubectl mgpu: list the pods of all namespaces: HTTP 403: pods is forbidden\n");
  cluster.extender.set("/inspect/cluster", R"({"error": "the user may not get /inspect"})", 403);
  EXPECT_EQ(cluster.at_url({"nodes"}).err,
            "kubectl mgpu: read the nodes: the extender answers 403 the user may not get /inspect; "
            "the ClusterRole mgpu-inspection-reader permits it\n");
}

TEST_F(VerbsTest, SaysThatThereIsNoExtender) {
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?", list_of(""));
  const Ran ran = cluster.with_config({"nodes"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "kubectl mgpu: no pod of mgpu-extender runs in namespace mgpu-system; kubectl mgpu "
            "doctor finds the cause, and $MGPU_NAMESPACE names another one\n");
  const Ran dead = cluster.with_config({"nodes", "--url", "http://127.0.0.1:1"});
  EXPECT_EQ(dead.code, 1);
  EXPECT_THAT(dead.err, StartsWith("kubectl mgpu: read the nodes: "));
}

TEST_F(VerbsTest, SaysThatTheExtenderIsOlder) {
  cluster.extender.set("/inspect/simulate", R"({"error": "path \"/inspect/simulate\" not found"})",
                       404);
  std::ofstream(cluster.folder.path("pod.yaml")) << "{kind: Pod, metadata: {name: p}, spec: {}}";
  const Ran ran = cluster.at_url({"simulate", "-f", cluster.folder.path("pod.yaml")});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "kubectl mgpu: simulate: the extender has no /inspect/simulate, so that it is older "
            "than this program (" MGPU_VERSION "); update it\n");
}

TEST_F(VerbsTest, SaysThatAnAnswerCannotBeRead) {
  for (const char* answer : {"[]", "<html>", R"({"nodes": 7})", R"({"nodes": [{"name": 1}]})"}) {
    cluster.extender.set("/inspect/cluster", answer);
    const Ran ran = cluster.at_url({"nodes"});
    EXPECT_EQ(ran.code, 1) << answer;
    EXPECT_THAT(ran.err, HasSubstr(" of the extender")) << answer;
    EXPECT_THAT(ran.out, IsEmpty()) << answer;
  }
}

std::string extender_pod(const std::string& name) {
  return R"({"metadata": {"name": ")" + name +
         R"(", "namespace": "mgpu", "labels": {"app.kubernetes.io/name": "mgpu-extender"}},
             "status": {"phase": "Running"}})";
}

TEST_F(VerbsTest, FindTheNamespaceOfMgpu) {
  cluster.api.set("/api/v1/pods?limit=500&labelSelector=", list_of(extender_pod("one")));
  cluster.api.set("/api/v1/namespaces/mgpu/pods?", list_of(extender_pod("one")));
  cluster.api.set("/api/v1/namespaces/elsewhere/pods?", list_of(""));
  const FakeKubectl kubectl("echo \"$@\" >$FAKE_KUBECTL/words; echo Forwarding from 127.0.0.1:" +
                            std::to_string(cluster.extender_server.port()) +
                            " '->' 9802; exec sleep 600");
  const Ran ran = cluster.with_config({"nodes", "-o", "name"});
  EXPECT_EQ(ran.out, "node/gpu-1\nnode/gpu-2\n") << ran.err;
  EXPECT_THAT(kubectl.file("words"), HasSubstr("--namespace=mgpu "));
  EXPECT_EQ(cluster.with_config({"nodes", "--mgpu-namespace", "elsewhere"}).err,
            "kubectl mgpu: no pod of mgpu-extender runs in namespace elsewhere; mgpu is in "
            "namespace mgpu\n");
}

// Every tenant can make pods with these labels, and would get the token of this user.
TEST_F(VerbsTest, DoNotSendTheTokenToANamespaceThatWasFound) {
  const std::string pod = R"({"metadata": {"name": "one", "namespace": "tenant",
      "labels": {"app.kubernetes.io/name": "mgpu-extender"}},
      "spec": {"serviceAccountName": "a"}, "status": {"phase": "Running"}})";
  cluster.api.set("/api/v1/pods?limit=500&labelSelector=", list_of(pod));
  cluster.api.set("/api/v1/namespaces/tenant/pods?", list_of(pod));
  cluster.api.set("/apis/coordination.k8s.io/v1/namespaces/tenant/leases/mgpu-extender",
                  R"({"spec": {"holderIdentity": "one_0123456789abcdef"}})");
  cluster.api.set("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                  R"({"status": {"allowed": false}})", 201);
  cluster.extender.require_token("secret");
  const FakeKubectl kubectl(
      "echo Forwarding from 127.0.0.1:" + std::to_string(cluster.extender_server.port()) +
      " '->' 9802; exec sleep 600");
  const Ran ran = cluster.with_config({"nodes"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("is sent to pods of --mgpu-namespace"));
  EXPECT_EQ(cluster.with_config({"nodes", "--mgpu-namespace", "tenant"}).code, 0);
}

TEST_F(VerbsTest, ReachesTheLeaderByPortForward) {
  const auto pod = extender_pod;
  cluster.api.set("/api/v1/namespaces/mgpu/pods?", list_of(pod("one") + "," + pod("two")));
  cluster.api.set("/apis/coordination.k8s.io/v1/namespaces/mgpu/leases/mgpu-extender",
                  R"({"spec": {"holderIdentity": "two_0123456789abcdef"}})");
  const FakeKubectl kubectl("echo \"$@\" >$FAKE_KUBECTL/words; echo Forwarding from 127.0.0.1:" +
                            std::to_string(cluster.extender_server.port()) +
                            " '->' 9802; exec sleep 600");
  const Ran ran = cluster.with_config({"nodes", "-o", "name", "--mgpu-namespace", "mgpu"});
  EXPECT_EQ(ran.out, "node/gpu-1\nnode/gpu-2\n") << ran.err;
  EXPECT_THAT(kubectl.file("words"), HasSubstr(" pod/two :9802"));
}

// --- top -----------------------------------------------------------------------------------------

constexpr const char* kUsed =
    "mgpu_container_memory_limit_bytes{namespace=\"research\",pod=\"notebook\",container=\"app\","
    "index=\"0\"} 8388608000\n"
    "mgpu_container_memory_used_bytes{namespace=\"research\",pod=\"notebook\",container=\"app\","
    "index=\"0\"} 1048576\n";

TEST_F(VerbsTest, TopReadsThePluginsAtTheirUrls) {
  cluster.extender.set("/metrics", kUsed);
  const Ran ran = cluster.with_config({"top", "-n", "research", "--plugin-url", cluster.url()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("notebook   app         gpu-1      0      -        1/8,000\n"));
}

TEST_F(VerbsTest, TopReachesThePluginsOfThePodsByPortForward) {
  const auto plugin = [](const std::string& name, const std::string& node) {
    return R"({"metadata": {"name": ")" + name +
           R"(", "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "mgpu",
              "app.kubernetes.io/component": "device-plugin"}}, "spec": {"nodeName": ")" +
           node + R"("}, "status": {"phase": "Running"}})";
  };
  cluster.extender.set("/metrics", kUsed);
  cluster.api.set("/api/v1/namespaces/kube-system/pods?",
                  list_of(plugin("other", "gpu-9") + "," + plugin("wanted", "gpu-1")));
  const FakeKubectl kubectl("echo \"$@\" >>$FAKE_KUBECTL/words; echo Forwarding from 127.0.0.1:" +
                            std::to_string(cluster.extender_server.port()) +
                            " '->' 9801; exec sleep 600");
  const Ran ran = cluster.with_config({"top", "-A", "-o", "json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out)["items"][0]["memoryMiB"]["granted"], 8'000);
  EXPECT_THAT(kubectl.file("words"),
              AllOf(HasSubstr(" pod/wanted :9801"), Not(HasSubstr("other"))));
}

TEST_F(VerbsTest, TopSaysWhichPluginsWereNotRead) {
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?", list_of(""));
  const Ran ran = cluster.with_config({"top", "-n", "research"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, IsEmpty()) << "no rows without any use";
  EXPECT_THAT(ran.err, StartsWith("kubectl mgpu: no device plugin runs on 1 of 1 nodes in "
                                  "namespace mgpu-system: gpu-1; "));
  const Ran json = cluster.with_config({"top", "-n", "research", "-o", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"notebook\""));
}

// --- version -------------------------------------------------------------------------------------

TEST_F(VerbsTest, VersionShowsTheProgramsAndWhetherTheyWorkTogether) {
  const auto pod = [](const std::string& component, const std::string& version) {
    return R"({"metadata": {"name": "p", "namespace": "mgpu-system", "labels": {
        "app.kubernetes.io/name": "mgpu", "app.kubernetes.io/component": ")" +
           component + R"(", "app.kubernetes.io/version": ")" + version +
           R"("}}, "status": {"phase": "Running"}})";
  };
  const auto list = [&](const std::string& pods) {
    cluster.api.set("/api/v1/namespaces/mgpu-system/pods?", list_of(pods));
  };
  const std::string extenders =
      pod("extender", MGPU_VERSION) + "," + pod("extender", MGPU_VERSION) + ",";
  const std::vector<std::string> words = {"version", "--mgpu-namespace", "mgpu-system"};
  list(extenders + pod("device-plugin", MGPU_VERSION));
  const Ran same = cluster.with_config(words);
  EXPECT_EQ(same.out, version_text() + "\nmgpu-device-plugin " MGPU_VERSION
                                       " in 1 pod\nmgpu-extender " MGPU_VERSION " in 2 pods\n");
  EXPECT_EQ(same.err, "");
  EXPECT_EQ(same.code, 0);

  list(extenders + pod("device-plugin", "9.9.0"));
  const Ran skew =
      cluster.with_config({"version", "--mgpu-namespace", "mgpu-system", "-o", "json"});
  EXPECT_EQ(skew.err, "kubectl mgpu: kubectl mgpu " MGPU_VERSION
                      " and mgpu-device-plugin 9.9.0 do not work together: their minor versions "
                      "may differ by one; kubectl mgpu doctor names the pods\n");
  EXPECT_EQ(skew.code, 1);
  const auto json = nlohmann::json::parse(skew.out);
  EXPECT_EQ(json["extender"],
            nlohmann::json::parse(R"([{"version": ")" MGPU_VERSION R"(", "pods": 2}])"));
  EXPECT_EQ(json["devicePlugin"][0]["version"], "9.9.0");

  list("");
  EXPECT_EQ(cluster.with_config(words).err,
            "kubectl mgpu: no pod of mgpu runs in namespace mgpu-system\n");
}

// --- explain -------------------------------------------------------------------------------------

constexpr const char* kWaits = R"({"namespace": "research", "name": "waits",
    "request": {"containers": [{"name": "app", "kind": "app", "cards": 1, "core": 50,
                                "memoryMiB": 20480}]}, "policy": "binpack/binpack",
    "nodesFitting": 0,
    "reasons": [{"reason": "node(s) had no single card with enough free mgpu-memory",
                 "nodes": 1, "evictionCanHelp": true}],
    "pending": {"why": "no card has 20480 MiB free", "help": "",
                "ways": ["on gpu-1 with mgpu-memory 16000 instead of 20480 for container app",
                         "on gpu-1 when research/train terminates"]},
    "nodes": [{"name": "gpu-1", "fits": false, "evictionCanHelp": true,
               "reason": "node(s) had no single card with enough free mgpu-memory",
               "cards": [{"index": 0, "container": "app", "fits": false,
                          "core": {"asked": 50, "free": 70},
                          "memoryMiB": {"asked": 20480, "free": 16000},
                          "why": "mgpu-memory: requests 20480, 16000 free"}]}]})";

TEST_F(VerbsTest, ExplainReadsTheReasonsAndWhatWouldHelp) {
  cluster.extender.set("/inspect/explain?namespace=research&name=waits", kWaits);
  cluster.api.set("/api/v1/namespaces/research/pods/waits",
                  R"({"metadata": {"name": "waits", "namespace": "research"}, "status": {
      "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]}})");
  const Ran ran = cluster.at_url({"explain", "pod/waits", "-n", "research"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(
      ran.out,
      AllOf(StartsWith("research/waits is pending: no card has 20480 MiB free.\n"),
            HasSubstr("\nIt would fit\n"
                      "  on gpu-1 with mgpu-memory 16000 instead of 20480 for container app\n"
                      "  on gpu-1 when research/train terminates\n")));
  EXPECT_THAT(cluster.at_url({"explain", "waits", "-n", "research", "-o", "wide"}).out,
              HasSubstr("kube-scheduler: 0/1 nodes\n"));
  EXPECT_EQ(cluster.at_url({"explain", "research/waits"}).out, ran.out);
  EXPECT_THAT(cluster.at_url({"explain", "research/waits", "-n", "default"}).err,
              HasSubstr("POD must be a name of a-z"));
}

TEST_F(VerbsTest, ExplainSaysWhichRightsItNeeds) {
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?",
                  R"({"kind": "Status", "message": "pods is forbidden: User \"anna\""})", 403);
  EXPECT_THAT(cluster.with_config({"explain", "absent"}).err,
              StartsWith("kubectl mgpu: get pod default/absent: HTTP 404"));
  cluster.api.set("/api/v1/namespaces/default/pods/p",
                  R"({"kind": "Status", "message": "pods \"p\" is forbidden: User \"anna\""})",
                  403);
  const Ran ran = cluster.with_config({"explain", "p"});
  EXPECT_EQ(ran.err,
            "kubectl mgpu: list the pods of the extender in namespace mgpu-system: HTTP 403: pods "
            "is forbidden: User \"anna\"; the ClusterRole mgpu-viewer permits it, bound by a "
            "RoleBinding there; meanwhile, kubectl describe pod p --namespace default has all "
            "Events\n");
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(cluster.with_config({"nodes"}).err, HasSubstr("the ClusterRole mgpu-viewer permits"));
}

TEST_F(VerbsTest, ExplainSaysWhatThePodSaysWithoutTheExtender) {
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?",
                  R"({"kind": "Status", "message": "pods is forbidden: User \"anna\""})", 403);
  cluster.api.set("/api/v1/namespaces/default/pods/p",
                  R"({"metadata": {"name": "p"}, "status": {"conditions": [
      {"type": "PodScheduled", "status": "False", "message": "0/1 nodes\u001b"}]}})");
  cluster.api.set("/api/v1/namespaces/default/events?", R"({
      "kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": [
      {"reason": "FailedScheduling", "message": "0/1"},
      {"reason": "MGPUPending", "message": "container c0 needs a whole card"}]})");
  const Ran ran = cluster.with_config({"explain", "p"});
  EXPECT_EQ(ran.out,
            "default/p is pending.\nkube-scheduler: 0/1 nodes\\u{1b}\n"
            "MGPUPending: container c0 needs a whole card\n");
  EXPECT_THAT(ran.err, HasSubstr("the ClusterRole mgpu-viewer permits it"));
  EXPECT_EQ(ran.code, 1);
  cluster.api.set("/api/v1/namespaces/other/pods/q", R"({"metadata": {"name": "q"}})");
  cluster.api.set("/api/v1/namespaces/other/events?",
                  R"({"kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": []})");
  EXPECT_THAT(cluster.with_config({"explain", "other/q"}).out,
              HasSubstr("The Event MGPUPending says"));
  EXPECT_EQ(nlohmann::json::parse(
                cluster.with_config({"explain", "p", "-o", "json"}).out)["events"][0]["reason"],
            "MGPUPending");
}

// --- overview and what all commands have
// ----------------------------------------------------------

TEST_F(VerbsTest, WithoutACommandItIsTheOverview) {
  const Ran ran = cluster.at_url({});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith("Cards       2 in 3 nodes, 2 usable, 0 idle\n"),
                             HasSubstr("\nPods        2 placed, 0 pending\n")));
  EXPECT_EQ(cluster.at_url({"overview"}).out, ran.out);
  cluster.api.set("/api/v1/pods?", R"({"kind": "Status", "message": "no"})", 403);
  const Ran without = cluster.at_url({});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.out, StartsWith("Cards       2 in 3 nodes"));
  EXPECT_THAT(without.err, HasSubstr("list the pods of all namespaces: HTTP 403"));
}

TEST_F(VerbsTest, AsksAsAnotherUser) {
  cluster.api.otherwise = [](const std::string& request, const std::string&) {
    return Answers::Answer{403, R"({"kind": "Status", "message": "not )" +
                                    test::header_of(request, "Impersonate-User") + " of " +
                                    test::header_of(request, "Impersonate-Group") + R"("})"};
  };
  EXPECT_THAT(cluster.with_config({"pods", "-n", "other", "--as", "ada", "--as-group", "ml"}).err,
              HasSubstr("not ada of ml"));
  EXPECT_THAT(cluster.with_config({"pods", "-n", "other"}).err, HasSubstr("not  of "));
  EXPECT_THAT(cluster.with_config({"pods", "--as-group", "ml"}).err,
              HasSubstr("--as-group needs --as"));
}

TEST_F(VerbsTest, FlagsMayComeBeforeTheCommand) {
  const Ran after = cluster.with_config({"pods", "-n", "research", "-o", "name"});
  EXPECT_EQ(after.out, "pod/notebook\n");
  EXPECT_EQ(cluster.with_config({"-n", "research", "-o", "name", "pods"}).out, after.out);
  EXPECT_EQ(cluster.with_config({"--namespace=research", "pods", "-o", "name"}).out, after.out);
  EXPECT_EQ(cluster.with_config({"-A", "pods", "-o", "name"}).out,
            cluster.with_config({"pods", "-A", "-o", "name"}).out);
  // No word after a flag without a value belongs to it.
  const Ran pending = cluster.with_config({"--pending", "pods", "-n", "default"});
  EXPECT_THAT(pending.out + pending.err, HasSubstr("No pods that request cards found."));
  EXPECT_THAT(cluster.with_config({"-n", "research", "pod"}).err,
              HasSubstr("unknown command \"pod\"; did you mean \"pods\"?"));
  EXPECT_EQ(cluster.with_config({"-n"}).code, 2);
}

TEST_F(VerbsTest, NamesMayHaveTheirKind) {
  EXPECT_EQ(cluster.at_url({"nodes", "node/gpu-2", "nodes/gpu-1", "-o", "name"}).out,
            "node/gpu-2\nnode/gpu-1\n");
  EXPECT_EQ(cluster.with_config({"pods", "-n", "research", "pod/notebook", "-o", "name"}).out,
            "pod/notebook\n");
  EXPECT_EQ(cluster.at_url({"nodes", "pod/gpu-2"}).code, 1);
}

TEST_F(VerbsTest, TablesAreSortedAndHaveNoHeaders) {
  const Ran ran = cluster.at_url({"cards", "--sort-by", "free", "--no-headers"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("--sort-by must be one of node, index, health, "));
  EXPECT_THAT(cluster.at_url({"nodes", "--sort-by", "free", "--no-headers"}).out,
              StartsWith("gpu-1   OK "));
}

TEST_F(VerbsTest, WatchShowsTheTableAgainUntilItFails) {
  std::size_t asked = 0;
  cluster.extender.clear();
  cluster.extender.otherwise = [&](const std::string&, const std::string&) -> Answers::Answer {
    if (++asked > 2) return {500, "{}"};
    return {200, R"({"nodes": [)" + node_json("gpu-1") + R"(], "drift": []})"};
  };
  const Ran ran = cluster.at_url({"nodes", "-w", "-o", "name"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "node/gpu-1\nnode/gpu-1\n");
}

TEST_F(VerbsTest, ExplainShowsTheNodesOfAllPages) {
  auto first = nlohmann::ordered_json::parse(kWaits);
  auto second = first;
  first["next"] = "gpu-1";
  second["nodes"][0]["name"] = "gpu-2";
  cluster.extender.set("/inspect/explain?namespace=default&name=waits&limit=1000&after=",
                       first.dump());
  cluster.extender.set("/inspect/explain?namespace=default&name=waits&limit=1000&after=gpu-1",
                       second.dump());
  const auto json = nlohmann::json::parse(cluster.at_url({"explain", "waits", "-o", "json"}).out);
  EXPECT_EQ(json["nodes"].size(), 2U);
  EXPECT_FALSE(json.contains("next"));
}

TEST_F(VerbsTest, ExplainNamesAPodThatDoesNotExist) {
  cluster.extender.set("/inspect/explain", R"({"error": "pod default/x not found"})", 404);
  EXPECT_EQ(cluster.at_url({"explain", "x"}).err,
            "kubectl mgpu: explain pod default/x: pod default/x not found\n");
}

// A pod may have the name of a command.
TEST_F(VerbsTest, ExplainTakesAnyNameOfAPod) {
  cluster.extender.set("/inspect/explain?namespace=default&name=version", kWaits);
  EXPECT_THAT(cluster.at_url({"explain", "version"}).out, HasSubstr("research/waits is pending"));
}

// --- simulate ------------------------------------------------------------------------------------

constexpr const char* kSimulated = R"({"namespace": "default", "name": "train",
    "policy": "spread/spread", "replicas": 3, "placed": 2, "fitting": 2,
    "placements": [{"node": "gpu-1", "containers": [{"container": "app", "cards": [0]}]},
                   {"node": "gpu-1", "containers": [{"container": "app", "cards": [1]}]}],
    "reasons": [{"reason": "node(s) had no single card with enough free mgpu-core", "nodes": 1}],
    "pending": {"why": "", "help": "", "ways": ["on gpu-1 when research/a terminates"]}})";

TEST_F(VerbsTest, SimulateSendsThePodOfADeployment) {
  cluster.extender.set("/inspect/simulate?replicas=3&policy=spread", kSimulated);
  std::ofstream(cluster.folder.path("app.yaml"))
      << "kind: Service\nmetadata: {name: s}\n---\nkind: Deployment\nmetadata: {name: train}\n"
         "spec: {replicas: 3, template: {spec: {containers: [{name: app}]}}}\n";
  const Ran ran =
      cluster.at_url({"simulate", "-f", cluster.folder.path("app.yaml"), "--policy", "spread"});
  EXPECT_EQ(ran.code, 1) << "not all replicas fit";
  EXPECT_EQ(ran.out,
            "2 of 3 replicas of default/train fit by policy spread/spread.\n\n"
            "NODE    PODS   CARDS OF EACH POD\n"
            "gpu-1      2   0 1\n\n"
            "NODES   WHY NO MORE FIT\n"
            "    1   node(s) had no single card with enough free mgpu-core\n\n"
            "One more would fit\n"
            "  on gpu-1 when research/a terminates\n")
      << ran.err;
}

TEST_F(VerbsTest, SimulateNamesObjectsThatItDoesNotRead) {
  cluster.extender.set("/inspect/simulate?replicas=1&policy=", kSimulated);
  std::ofstream(cluster.folder.path("list.yaml"))
      << "kind: List\nitems:\n- {kind: Service, metadata: {name: s}}\n"
         "- {kind: DaemonSet, metadata: {generateName: d-}, spec: {template: {spec: {}}}}\n";
  const Ran ran = cluster.at_url({"simulate", "-f", cluster.folder.path("list.yaml")});
  EXPECT_THAT(ran.out, HasSubstr("2 of 3 replicas")) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("list.yaml\": no pods are read of Service s (document 1)\n"));
}

TEST_F(VerbsTest, SimulateNamesAWrongManifest) {
  const std::pair<const char*, const char*> cases[] = {
      {"kind: Service\nmetadata: {name: s}",
       "bad.yaml\": no pods are read of Service s (document 1)\nkubectl mgpu: "},
      {"", "has 0 objects with pods, expected one"},
      {"{kind: Pod, metadata: {name: a}}\n---\n{kind: Job, metadata: {name: b}, spec: {}}",
       "has 2 objects with pods, expected one"},
      {"{kind: Deployment, metadata: {name: d, namespace: team}}",
       "line 1: Deployment team/d: the template of pods is missing, expected a map"},
      {"kind: Deployment\nmetadata: {name: d}\nspec: {replicas: many, template: {spec: {}}}",
       "line 3: Deployment d: spec.replicas must be a whole number, is \"many\""},
      {"{kind: Pod, metadata: {name: p}}",
       "line 1: Pod p: the spec of the pod is missing, expected a map"},
      {"{kind: Pod}", "line 1: Pod in document 1: metadata.name is missing, expected a name"},
      {"a: [", "not YAML: line 1: "},
  };
  for (const auto& [text, sentence] : cases) {
    std::ofstream(cluster.folder.path("bad.yaml")) << text;
    const Ran ran = cluster.at_url({"simulate", "-f", cluster.folder.path("bad.yaml")});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, AllOf(HasSubstr("bad.yaml"), HasSubstr(sentence))) << text;
  }
}

TEST_F(VerbsTest, AnExtenderAtAUrlNeedsNoKubeconfig) {
  ::setenv("KUBECONFIG", "/nowhere", 1);
  const Ran ran = run({"nodes", "--url", cluster.url(), "-o", "name"});
  EXPECT_EQ(ran.out, "node/gpu-1\nnode/gpu-2\n") << ran.err;
  EXPECT_THAT(run({"nodes", "--url", cluster.url(), "-l", "a=b"}).err,
              AllOf(HasSubstr("list nodes: "), HasSubstr("/nowhere")));
  EXPECT_THAT(run({"nodes", "--url", cluster.url(), "--kubeconfig", "/other"}).err,
              HasSubstr("/other"));
  ::unsetenv("KUBECONFIG");
}

TEST(VerbsUsage, RefusesAWrongCommandLine) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"explain"}, "POD is missing"},
      {{"explain", "a", "b"}, "unexpected argument \"b\""},
      {{"explain", "A/b"}, "POD must be a name of a-z, 0-9, \"-\" and \".\", found \"A/b\""},
      {{"simulate"}, "--filename is missing"},
      {{"simulate", "-f", "x", "--replicas", "1001"},
       "--replicas must be a whole number from 0 to 1000, found \"1001\""},
      {{"pods", "-A", "a"}, "--all-namespaces does not go with the name of a pod"},
      {{"pods", "-n", "A/b"}, "--namespace must be a name"},
      {{"nodes", "-o", "csv"}, "--output must be table, wide, json, yaml or name, found \"csv\""},
      {{"nodes", "--url", "ftp://x"}, "--url must begin with http:// or https://"},
      {{"cards", "--mgpu-namespace", "A/b"}, "--mgpu-namespace must be a name"},
  };
  for (const auto& [words, sentence] : cases) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 2) << sentence;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("kubectl mgpu: " + sentence), HasSubstr("see --help\n")));
  }
  EXPECT_THAT(run({"explain", "--help"}).out, HasSubstr("Usage: kubectl mgpu explain POD [FLAGS]"));
}

}  // namespace
}  // namespace mgpu::test
