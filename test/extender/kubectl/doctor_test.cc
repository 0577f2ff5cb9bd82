// `kubectl mgpu` as users call it, with scripted servers in place of the API server and the
// extender.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/utc_text.h"
#include "extender/kubectl/service_client.h"
#include "extender/kubectl/verb.h"
#include "test/extender/kubectl/fake_kubectl.h"
#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kApis = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic";

// A cluster with one extender, which leads, and one node with a card.
void set_good_cluster(Answers& api, const std::string& in) {
  api.set("/version", R"({"gitVersion": "v1.35.1"})");
  const std::string pods = list_of(R"(
    {"metadata": {"name": "mgpu-extender-1", "namespace": ")" +
                                   in + R"(",
                  "labels": {"app.kubernetes.io/name": "mgpu-extender"}},
     "spec": {"nodeName": "n1", "serviceAccountName": "mgpu-extender"},
     "status": {"phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}]}},
    {"metadata": {"name": "plugin", "namespace": ")" +
                                   in + R"(",
                  "labels": {"app.kubernetes.io/name": "mgpu",
                             "app.kubernetes.io/component": "device-plugin"}},
     "spec": {"nodeName": "gpu-1"},
     "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})");
  api.set("/api/v1/pods?limit=500&labelSelector=", pods);
  api.set("/api/v1/namespaces/" + in + "/pods?", pods);
  const std::string lease =
      R"({"metadata": {"name": "mgpu-extender", "namespace": ")" + in +
      R"("}, "spec": {"holderIdentity": "mgpu-extender-1_0123456789abcdef"}})";
  api.set("/apis/coordination.k8s.io/v1/leases?", list_of(lease));
  api.set("/apis/coordination.k8s.io/v1/namespaces/" + in + "/leases/mgpu-extender", lease);
  api.set("/api/v1/namespaces/" + in + "/serviceaccounts/mgpu-extender", R"({"metadata": {}})");
  api.set("/api/v1/namespaces/" + in + "/services/mgpu-extender",
          R"({"metadata": {"name": "mgpu-extender"}})");
  api.set("/apis/discovery.k8s.io/v1/namespaces/" + in + "/endpointslices?",
          list_of(R"({"endpoints": [{"addresses": ["10.0.0.1"]}]})"));
  std::string policies;
  std::string bindings;
  for (const std::string name :
       {"mgpu-cards-of-bound-pods", "mgpu-cards-need-a-scheduler", "mgpu-extender-touch",
        "mgpu-extender-events", "mgpu-extender-evictions", "mgpu-device-plugin-node",
        "mgpu-device-plugin-events"}) {
    const std::string comma = policies.empty() ? "" : ",";
    policies += comma + R"({"metadata": {"name": ")" + name + R"("}})";
    bindings +=
        comma + R"({"spec": {"policyName": ")" + name + R"(", "validationActions": ["Deny"]}})";
  }
  api.set(std::string(kApis) + "ies?", list_of(policies));
  api.set(std::string(kApis) + "ybindings?", list_of(bindings));
  api.set("/api/v1/nodes?",
          list_of(R"(
    {"metadata": {"name": "gpu-1", "annotations": {"vke.volcengine.com/mgpu-cards":
       "{\"version\": 1, \"cards\": [{\"index\": 0, \"uuid\": \"GPU-0\", )"
                  R"(\"model\": \"V100\", \"memoryMiB\": 32000, \"health\": \"Healthy\"}]}"}},
     "status": {"capacity": {"vke.volcengine.com/mgpu-core": "100",
                             "vke.volcengine.com/mgpu-memory": "32k"},
                "conditions": [{"type": "MGPUReady", "status": "True"},
                               {"type": "MGPUCardsExclusive", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.35.1"}}})"));
  api.set("/api/v1/namespaces/kube-system/configmaps?", list_of(""));
  api.set("/api/v1/namespaces/" + in + "/configmaps?", list_of(""));
  api.set("/api/v1/pods?", list_of(""));
  api.set("/api/v1/nodes/gpu-1/proxy/configz", R"({"kubeletconfig": {}})");
  api.set("/apis/authorization.k8s.io/v1/subjectaccessreviews", R"({"status": {"allowed": true}})",
          201);
}

void set_good_extender(Answers& extender) {
  extender.set("/readyz", R"({"ready": true, "api_server": "answers"})");
  extender.set("/version", R"({"version": ")" MGPU_VERSION R"("})");
  extender.set("/metrics", "mgpu_extender_verb_duration_seconds_count{verb=\"filter\"} 3\n");
  extender.set("/inspect/cluster",
               R"({"totals": {"podsDrifting": 0, "cardsOverfull": 0}, "drift": []})");
}

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    set_good_cluster(api_, "kube-system");
    set_good_extender(extender_);
    std::ofstream(folder_.path("config"))
        << "{current-context: c, contexts: [{name: c, context: "
           "{cluster: k, user: u}}], clusters: [{name: k, "
           "cluster: {server: 'http://127.0.0.1:"
        << api_server_.port() << "'}}], users: [{name: u, user: {token: secret}}]}";
  }

  Ran doctor(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"doctor", "--kubeconfig", folder_.path("config")});
    return run(std::move(words));
  }
  Ran doctor_at_url() { return doctor({"--url", url()}); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(extender_server_.port()); }
  std::string forwarding() const {
    return "echo Forwarding from 127.0.0.1:" + std::to_string(extender_server_.port()) +
           " '->' 9802; exec sleep 600";
  }

  ScratchFolder folder_;
  Answers api_;
  Answers extender_;
  const ScriptedServer api_server_{[this](Peer& peer) { api_.serve(peer); }};
  const ScriptedServer extender_server_{[this](Peer& peer) { extender_.serve(peer); }};
};

TEST_F(DoctorTest, AGoodInstallationIsFine) {
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("\nerrors: 0, warnings: 0, not checked: 0, notes: 0, ok: 15\n"));
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST_F(DoctorTest, ReachesThePodsByPortForward) {
  const FakeKubectl kubectl("echo \"$@\" >$FAKE_KUBECTL/words\n" + forwarding());
  const Ran ran = doctor();
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(kubectl.file("words"), AllOf(HasSubstr("--kubeconfig=" + folder_.path("config")),
                                           HasSubstr(" pod/mgpu-extender-1 :9802")));
  EXPECT_THAT(ran.out, HasSubstr("filter was called 3 times"));
}

TEST_F(DoctorTest, SaysWhatPortForwardSays) {
  const FakeKubectl kubectl("echo 'Error from server (Forbidden): no' >&2; exit 1");
  const Ran ran = doctor();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("unknown  extender"));
  EXPECT_THAT(ran.out, HasSubstr("Error from server (Forbidden): no"));
}

TEST_F(DoctorTest, SendsTheTokenWhereItIsNeeded) {
  extender_.require_token("secret");
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST_F(DoctorTest, GoesOnWithoutARight) {
  api_.set("/api/v1/nodes?",
           R"({"kind": "Status", "code": 403, "message": "nodes is forbidden: \u202e"})", 403);
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("unknown  nodes         list nodes: HTTP 403"));
  EXPECT_THAT(ran.out, HasSubstr("nodes is forbidden: \\u{202e}"));
  EXPECT_THAT(ran.out, HasSubstr("ok       leader"));
}

TEST_F(DoctorTest, AnObjectThatCannotBeReadHidesNoOther) {
  api_.set("/api/v1/pods?", list_of(R"({"metadata":{"name":"bad"}, "spec": 7},
    {"metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "gpu-1", "containers": [
       {"name": "a", "resources": {"limits": {"vke.volcengine.com/mgpu-core": "100"}}}]}})"));
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("list pods with a node: bad: "));
  EXPECT_THAT(ran.out, HasSubstr("was bound without annotations, so that the extender did not "
                                 "bind it [d/p]"));
}

// kube-scheduler ends with this sentence before it has done anything.
TEST_F(DoctorTest, FindsAKubeSchedulerWithTwoExtendersThatBind) {
  api_.set("/api/v1/namespaces/kube-system/pods?limit=500&labelSelector=component",
           list_of(R"({"metadata": {"name": "kube-scheduler-a", "namespace": "kube-system"}},
                      {"metadata": {"name": "kube-scheduler-b", "namespace": "kube-system"}})"));
  api_.set(
      "/api/v1/namespaces/kube-system/pods/kube-scheduler-a/log",
      "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can "
      "implement bind\n");
  api_.set("/api/v1/namespaces/kube-system/pods/kube-scheduler-b/log", "other\n");
  api_.set("/api/v1/namespaces/kube-system/configmaps?",
           list_of(R"({"metadata": {"name": "m",
    "namespace": "kube-system"}, "data": {"c": "kind: KubeSchedulerConfiguration\nextenders:\n- )"
                   R"({urlPrefix: a, bindVerb: b}\n- {urlPrefix: c, bindVerb: d}\n"}})"));
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out,
              HasSubstr("several extenders have a bindVerb: a, c [ConfigMap kube-system/m]"));
  EXPECT_THAT(ran.out, HasSubstr("have a bindVerb [kube-system/kube-scheduler-a]\n"));
}

TEST_F(DoctorTest, PrintsJson) {
  const Ran ran = doctor({"--url", url(), "-o", "json"});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["healthy"], true);
  EXPECT_EQ(json["findings"].size(), 15U);
}

TEST_F(DoctorTest, SelectsNodesAndNamespace) {
  const Ran ran = doctor({"--url", url(), "-l", "pool in (a,b)", "-n", "mgpu"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(api_.requests(),
              AllOf(Contains("/api/v1/nodes?limit=500&labelSelector=pool%20in%20%28a%2Cb%29"),
                    Contains(testing::StartsWith("/api/v1/namespaces/mgpu/pods?limit=500")),
                    Contains("/apis/coordination.k8s.io/v1/namespaces/mgpu/leases/mgpu-extender")));
  EXPECT_THAT(ran.out, HasSubstr("mgpu is not installed in namespace mgpu, and is in others"));
}

// A chart in its namespace, and the objects of helm.
class ChartDoctorTest : public DoctorTest {
 protected:
  ChartDoctorTest() {
    api_.clear();
    set_good_cluster(api_, "mgpu-system");
    api_.set("/api/v1/namespaces/mgpu-system/serviceaccounts/mgpu-extender",
             R"({"metadata": {"labels": {"helm.sh/chart": "mgpu-0.1.0"},
                              "annotations": {"meta.helm.sh/release-name": "cards"}}})");
  }
};

TEST_F(ChartDoctorTest, IsFoundInItsNamespace) {
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("mgpu is in namespace mgpu-system, by helm as the release cards"));
}

TEST_F(ChartDoctorTest, IsFoundByAUserWhoMayNotListAllNamespaces) {
  const std::string forbidden = R"({"kind": "Status", "code": 403, "message": "no"})";
  api_.set("/api/v1/pods?limit=500&labelSelector=", forbidden, 403);
  api_.set("/apis/coordination.k8s.io/v1/leases?", forbidden, 403);
  EXPECT_EQ(doctor_at_url().code, 0);
}

// The ClusterRoleBinding of deploy/manifests has one name in all namespaces: the extender that runs
// would lose its rights.
TEST_F(ChartDoctorTest, AnotherNamespaceGetsNoAdviceThatTakesItsRights) {
  api_.set("/apis/authorization.k8s.io/v1/subjectaccessreviews",
           R"({"status": {"allowed": false}})", 201);
  const Ran ran = doctor({"--url", url(), "--namespace", "kube-system"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("mgpu is not installed in namespace kube-system, and is in "
                                 "others, so that nothing else was checked [mgpu-system]"));
  EXPECT_THAT(ran.out, Not(HasSubstr("apply")));
}

TEST_F(ChartDoctorTest, WhatHelmMadeIsMadeAgainByHelm) {
  api_.set(std::string(kApis) + "ies?", list_of(""));
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("-> helm upgrade cards deploy/chart --namespace mgpu-system "
                                 "--reset-then-reuse-values --wait --set policies.enabled=true"));
  EXPECT_THAT(ran.out, Not(HasSubstr("kubectl apply")));
}

TEST_F(ChartDoctorTest, WhatKubectlMadeIsAppliedAgainInItsNamespace) {
  api_.set(std::string(kApis) + "ies?", list_of(""));
  const std::string account = "/api/v1/namespaces/mgpu-system/serviceaccounts/mgpu-extender";
  api_.set(account, R"({"metadata": {}})");
  EXPECT_THAT(doctor_at_url().out,
              HasSubstr("-> sed 's/mgpu-system/mgpu-system/g' deploy/manifests/mgpu.yaml | "
                        "kubectl apply -f - --selector app.kubernetes.io/component=access"));
  api_.set(account, R"({"kind": "Status", "code": 403})", 403);
  EXPECT_THAT(doctor_at_url().out, Not(HasSubstr("apply")));
}

// Every tenant can make pods with these labels, and would get the token of an administrator.
TEST_F(ChartDoctorTest, PodsOfATenantAreNeitherChosenNorTrusted) {
  const auto pod = [](const std::string& name_space) {
    return R"({"metadata": {"name": "mgpu-extender-1", "namespace": ")" + name_space +
           R"(", "labels": {"app.kubernetes.io/name": "mgpu-extender"}},
       "spec": {"nodeName": "n1", "serviceAccountName": "a"}, "status": {"phase": "Running"}})";
  };
  api_.set("/api/v1/pods?limit=500&labelSelector=",
           list_of(pod("a-tenant") + "," + pod("mgpu-system")));
  EXPECT_EQ(doctor_at_url().code, 1);  // both may bind pods here
  EXPECT_THAT(doctor_at_url().out, HasSubstr("namespace mgpu-system was checked, and other "
                                             "namespaces have pods or the Lease of mgpu"));
  // None may.
  api_.set("/apis/authorization.k8s.io/v1/subjectaccessreviews",
           R"({"status": {"allowed": false}})", 201);
  api_.set("/api/v1/pods?limit=500&labelSelector=", list_of(pod("a-tenant")));
  api_.set("/apis/coordination.k8s.io/v1/leases?", list_of(""));
  api_.set("/api/v1/namespaces/a-tenant/pods?", list_of(pod("a-tenant")));
  extender_.require_token("secret");
  const FakeKubectl kubectl(forwarding());
  const Ran ran = doctor();
  EXPECT_THAT(ran.out, HasSubstr("so that its pods did not get the token of this user"));
  EXPECT_THAT(ran.out, HasSubstr("HTTP 401"));
  EXPECT_THAT(doctor({"--namespace", "a-tenant"}).out, Not(HasSubstr("HTTP 401")));
}

// Objects of deploy/manifests keep helm from installing the chart.
TEST_F(ChartDoctorTest, WithoutAnInstallationNothingIsApplied) {
  api_.clear();
  api_.set("/version", R"({"gitVersion": "v1.35.1"})");
  for (const char* path :
       {"/api/v1/pods?", "/api/v1/nodes?", "/api/v1/namespaces/mgpu-system/pods?",
        "/apis/coordination.k8s.io/v1/leases?"}) {
    api_.set(path, list_of(""));
  }
  api_.set(std::string(kApis) + "ies?", list_of(""));
  const Ran ran = doctor();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("install it as deploy/INSTALL.md says"));
  EXPECT_THAT(ran.out, Not(HasSubstr("apply")));
}

TEST_F(DoctorTest, AnApiServerThatDoesNotAnswerIsOneFindingOfMany) {
  std::ofstream(folder_.path("config"))
      << "{current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, "
         "cluster: {server: 'http://127.0.0.1:1'}}]}";
  const Ran ran = doctor_at_url();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("error    api-server    the API server cannot be asked for its "
                                 "version: get the version of the API server: "));
}

TEST(KubectlMgpu, RefusesAWrongCommandLine) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"fly"}, "unknown command \"fly\""},
      {{"doctor", "-o", "yaml"}, "--output must be table or json, found \"yaml\""},
      {{"doctor", "-n", "A/b"}, "--namespace must be a name of a-z, 0-9, \"-\" and \".\""},
      {{"doctor", "--url", "ftp://x"}, "--url must begin with http:// or https://, found"},
      {{"doctor", "--resource-domain", "x y"}, "--resource-domain: "},
      {{"doctor", "--metrics-port", "0"}, "--metrics-port must be a whole number from 1 to 65535"},
  };
  for (const auto& [words, sentence] : cases) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 2) << sentence;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, AllOf(HasSubstr("kubectl mgpu: " + sentence), HasSubstr("see --help\n")));
  }
}

TEST(KubectlMgpu, NamesAKubeconfigThatCannotBeRead) {
  const Ran ran = run({"doctor", "--kubeconfig", "/nonexistent"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("kubectl mgpu: kubeconfig: "), HasSubstr("/nonexistent")));
}

TEST(KubectlMgpu, HasAVersionAndHelp) {
  EXPECT_EQ(run({"--version"}).out, version_text() + "\n");
  const Ran alone = run({"version", "--kubeconfig", "/nonexistent"});
  EXPECT_EQ(alone.out, version_text() + "\n");
  EXPECT_THAT(alone.err, HasSubstr("kubectl mgpu: kubeconfig: "));
  EXPECT_EQ(alone.code, 1);
  const Ran help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Usage: kubectl mgpu COMMAND [FLAGS]"));
  EXPECT_THAT(run({"doctor", "--help"}).out, HasSubstr("Usage: kubectl mgpu doctor [FLAGS]"));
  for (const kubectl::Verb& verb : kubectl::all_verbs()) {
    const std::string text = run({"help", verb.name}).out;
    EXPECT_EQ(text, run({verb.name, "-h"}).out);
    EXPECT_THAT(text, HasSubstr("\nExamples:\n  kubectl mgpu " + verb.name));
  }
  EXPECT_EQ(run({"nods"}).err,
            "kubectl mgpu: unknown command \"nods\"; did you mean \"nodes\"?; see --help\n");
}

TEST(ServiceAddress, ATokenIsNotSentInPlainTextOverTheNetwork) {
  const std::pair<kubectl::ServiceAddress, bool> cases[] = {
      {{"http://127.0.0.1:9802", "", false}, true},
      {{"http://localhost:9802", "", false}, true},
      {{"http://[::1]:9802", "", false}, true},
      {{"https://10.0.0.1:9802", "", false}, true},
      {{"http://10.0.0.1:9802", "", false}, false},
      {{"http://127.0.0.1.example.com:9802", "", false}, false},
      {{"http://localhost.example.com", "", false}, false},
      {{"http://127.0.0.1:40123", "", true}, true},
      {{"http://127.0.0.1:40123", "", true, false}, false},
      {{"https://127.0.0.1:40123", "", true, false}, false},
  };
  for (const auto& [address, allowed] : cases) {
    EXPECT_EQ(kubectl::may_send_token(address), allowed) << address.url;
  }
}

}  // namespace
}  // namespace mgpu::test
