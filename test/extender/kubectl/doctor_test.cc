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
void set_good_cluster(Answers& api) {
  api.set("/version", R"({"gitVersion": "v1.35.1"})");
  api.set("/api/v1/namespaces/kube-system/pods?", list_of(R"(
    {"metadata": {"name": "mgpu-extender-1", "namespace": "kube-system",
                  "labels": {"app.kubernetes.io/name": "mgpu-extender"}},
     "spec": {"nodeName": "n1"},
     "status": {"phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}]}},
    {"metadata": {"name": "plugin", "namespace": "kube-system",
                  "labels": {"app.kubernetes.io/name": "mgpu",
                             "app.kubernetes.io/component": "device-plugin"}},
     "spec": {"nodeName": "gpu-1"},
     "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})"));
  api.set("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mgpu-extender",
          R"({"spec": {"holderIdentity": "mgpu-extender-1_0123456789abcdef"}})");
  api.set("/api/v1/namespaces/kube-system/services/mgpu-extender",
          R"({"metadata": {"name": "mgpu-extender"}})");
  api.set("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices?",
          list_of(R"({"endpoints": [{"addresses": ["10.0.0.1"]}]})"));
  std::string policies;
  std::string bindings;
  for (const std::string name :
       {"mgpu-cards-of-bound-pods", "mgpu-cards-need-a-scheduler", "mgpu-extender-touch",
        "mgpu-extender-events", "mgpu-device-plugin-node", "mgpu-device-plugin-events"}) {
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
  api.set("/apis/resource.k8s.io/v1/resourceslices?", list_of(""));
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
    set_good_cluster(api_);
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
  EXPECT_THAT(ran.out, HasSubstr("\nerrors: 0, warnings: 0, not checked: 0, notes: 0, ok: 14\n"));
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

TEST_F(DoctorTest, PrintsJson) {
  const Ran ran = doctor({"--url", url(), "-o", "json"});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["healthy"], true);
  EXPECT_EQ(json["findings"].size(), 14U);
}

TEST_F(DoctorTest, SelectsNodesAndNamespace) {
  const Ran ran = doctor({"--url", url(), "-l", "pool in (a,b)", "-n", "mgpu"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(api_.requests(),
              AllOf(Contains("/api/v1/nodes?limit=500&labelSelector=pool%20in%20%28a%2Cb%29"),
                    Contains(testing::StartsWith("/api/v1/namespaces/mgpu/pods?limit=500")),
                    Contains("/apis/coordination.k8s.io/v1/namespaces/mgpu/leases/mgpu-extender")));
  EXPECT_THAT(ran.out, HasSubstr("there is no Lease mgpu/mgpu-extender"));
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
      {{}, "a command is needed: nodes, cards, pods, "},
      {{"fly"}, "unexpected argument \"fly\""},
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
  EXPECT_EQ(run({"version"}).out, version_text() + "\n");
  const Ran help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Usage: kubectl mgpu COMMAND [FLAGS]"));
  EXPECT_THAT(run({"doctor", "--help"}).out, HasSubstr("Usage: kubectl mgpu doctor [FLAGS]"));
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
