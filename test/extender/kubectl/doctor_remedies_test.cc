// Each sentence that `kubectl mgpu doctor` advises: a situation in which it is printed, somebody
// who does what it says, and a doctor who does not print it any more. Commands are run by bash as
// they are printed, with a kubectl that changes the objects of an in-memory API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "bench/apiserver/api_server.h"
#include "common/base/asio_executor.h"
#include "common/base/files.h"
#include "common/base/text.h"
#include "common/yaml/read.h"
#include "extender/kubectl/doctor/checks.h"
#include "test/extender/kubectl/fake_kubectl.h"
#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using kubectl::Act;
using kubectl::Remedy;
using Json = nlohmann::json;

constexpr const char* kPolicies =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?";
constexpr const char* kBindings =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings?";
constexpr const char* kReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
constexpr const char* kConfigz = "/api/v1/nodes/gpu-1/proxy/configz";
constexpr const char* kForbidden = R"({"kind": "Status", "code": 403, "message": "no"})";
constexpr const char* kCards = "vke.volcengine.com/mgpu-cards";
constexpr const char* kLease = "leases/mgpu-extender";

std::string cards(const std::string& health, const std::string& more = "") {
  return R"({"version": 1, )" + more + R"("cards": [{"index": 0, "uuid": "GPU-0", "model": "V100",
            "memoryMiB": 32000, "health": ")" +
         health + R"("}]})";
}

std::string metrics(const std::string& filter, const std::string& more = "") {
  return "mgpu_extender_verb_duration_seconds_count{verb=\"filter\"} " + filter + "\n" + more +
         "\n";
}

std::string expiry(const std::string& certificate, std::int64_t days) {
  return metrics("3", "mgpu_extender_certificate_expiry_timestamp_seconds{certificate=\"" +
                          certificate + "\"} " +
                          std::to_string(std::time(nullptr) + days * 86'400));
}

// An installation without findings, of which each situation changes something.
class World {
 public:
  World() {
    start_memory();
    api.otherwise = [this](const std::string& request, const std::string& target) {
      return from_memory(request, target);
    };
    api.set("/version", R"({"gitVersion": "v1.35.1"})");
    set_policies({"mgpu-cards-of-bound-pods", "mgpu-cards-need-a-scheduler", "mgpu-extender-touch",
                  "mgpu-extender-events", "mgpu-extender-evictions", "mgpu-device-plugin-node",
                  "mgpu-device-plugin-events"});
    api.set(kReviews, R"({"status": {"allowed": true}})", 201);
    for (const char* path :
         {"/api/v1/namespaces/kube-system/configmaps?",
          "/api/v1/namespaces/mgpu-system/configmaps?", "/api/v1/namespaces/mine/configmaps?"}) {
      api.set(path, list_of(""));
    }
    api.set(kConfigz, R"({"kubeletconfig": {}})");
    put("/api/v1/nodes",
        {{"metadata", {{"name", "gpu-1"}, {"annotations", {{kCards, cards("Healthy")}}}}}},
        {{"capacity",
          {{"vke.volcengine.com/mgpu-core", "100"}, {"vke.volcengine.com/mgpu-memory", "32k"}}},
         {"conditions",
          {{{"type", "MGPUReady"}, {"status", "True"}},
           {{"type", "MGPUCardsExclusive"}, {"status", "True"}}}},
         {"nodeInfo", {{"kubeletVersion", "v1.35.1"}}}});
    install("kube-system");
    for (Answers* each : {&extender, &second}) {
      each->set("/readyz", R"({"ready": true, "api_server": "answers"})");
      each->set("/version", R"({"version": ")" MGPU_VERSION R"("})");
      each->set("/metrics", metrics("3"));
      each->set("/inspect/cluster", R"({"totals": {}, "drift": []})");
    }
    write_config(api_server_.port());
  }

  void install(const std::string& in) {
    in_ = in;
    api.set(space() + "serviceaccounts/mgpu-extender", R"({"metadata": {}})");
    put_extender(in, 1);
    put_plugin();
    put(lease_path(), {{"metadata", {{"name", "mgpu-extender"}}},
                       {"spec", {{"holderIdentity", "mgpu-extender-1_0123456789abcdef"}}}});
    put(space() + "services",
        {{"metadata", {{"name", "mgpu-extender"}}}, {"spec", {{"ports", {{{"port", 9800}}}}}}});
    put("/apis/discovery.k8s.io/v1/namespaces/" + in + "/endpointslices",
        {{"metadata",
          {{"name", "s"}, {"labels", {{"kubernetes.io/service-name", "mgpu-extender"}}}}},
         {"addressType", "IPv4"},
         {"endpoints", {{{"addresses", {"10.0.0.1"}}}}}});
  }
  void put_extender(const std::string& in, int number) {
    const std::string digit = std::to_string(number);
    put_pod(in, "mgpu-extender-" + digit, "mgpu-extender", "n" + digit, "10.0.0." + digit);
  }
  void put_plugin() { put_pod(in_, "plugin", "mgpu-device-plugin", "gpu-1", "10.0.0.9"); }
  void remove_installation() {
    for (const char* object : {"pods/mgpu-extender-1", "pods/plugin", "services/mgpu-extender"}) {
      remove(space() + object);
    }
    remove(lease_path() + "/mgpu-extender");
    remove("/apis/discovery.k8s.io/v1/namespaces/" + in_ + "/endpointslices/s");
  }
  void move(const std::string& to) {
    remove_installation();
    install(to);
  }

  // A pod of a user. `more` has annotations.
  void put_user_pod(const std::string& node, const Json& annotations = Json::object()) {
    Json spec = {{"containers",
                  {{{"name", "app"},
                    {"image", "i"},
                    {"resources", {{"limits", {{"vke.volcengine.com/mgpu-core", "100"}}}}}}}}};
    if (!node.empty()) spec["nodeName"] = node;
    put("/api/v1/namespaces/d/pods",
        {{"metadata", {{"name", "p"}, {"annotations", annotations}}}, {"spec", spec}});
  }

  void put(const std::string& collection, const Json& object, const Json& status = {}) {
    send(kube::Method::kPost, collection, object);
    if (status.is_null()) return;
    const std::string name = object["metadata"]["name"];
    patch(collection + "/" + name + "/status", {{"status", status}});
  }
  void patch(const std::string& path, const Json& change) {
    send(kube::Method::kPatch, path, change);
  }
  void remove(const std::string& path) {
    send(kube::Method::kDelete, path + "?gracePeriodSeconds=0", nullptr);
  }
  void annotate(const char* key, const Json& value) {
    patch("/api/v1/nodes/gpu-1", {{"metadata", {{"annotations", {{key, value}}}}}});
  }
  void set_node(const Json& status) { patch("/api/v1/nodes/gpu-1/status", {{"status", status}}); }
  void set_pod(const std::string& name, const Json& status) {
    patch(space() + "pods/" + name + "/status", {{"status", status}});
  }
  void set_lease(const Json& spec) { patch(lease_path() + "/mgpu-extender", {{"spec", spec}}); }
  void set_endpoints(const Json& endpoints) {
    patch("/apis/discovery.k8s.io/v1/namespaces/" + in_ + "/endpointslices/s",
          {{"endpoints", endpoints}});
  }
  void set_policies(std::set<std::string> names) {
    policies_ = std::move(names);
    std::string items;
    std::string bindings;
    for (const std::string& name : policies_) {
      const char* const comma = items.empty() ? "" : ",";
      items += comma + (R"({"metadata": {"name": ")" + name + R"("}})");
      bindings +=
          comma + (R"({"spec": {"validationActions": ["Deny"], "policyName": ")" + name + R"("}})");
    }
    api.set(kPolicies, list_of(items));
    api.set(kBindings, list_of(bindings));
  }
  void lose_policy() {
    const std::set<std::string> all = policies_;
    set_policies({});
    set_policies({all.begin(), std::prev(all.end())});
    lost_ = *all.rbegin();
  }
  void find_policy() {
    auto all = policies_;
    all.insert(lost_);
    set_policies(all);
  }
  void write_config(std::uint16_t port) {
    std::ofstream(folder_.path("config")) << "{current-context: c, contexts: [{name: c, context: "
                                             "{cluster: k}}], clusters: [{name: k, "
                                             "cluster: {server: 'http://127.0.0.1:"
                                          << port << "'}}]}";
  }
  void repair_config() { write_config(api_server_.port()); }

  Json doctor() {
    std::vector<std::string> words = doctor_words;
    words.insert(words.end(), {"-o", "json", "--kubeconfig", folder_.path("config")});
    if (!by_pods) words.insert(words.end(), {"--url", url(extender_server_)});
    const Ran ran = run(words);
    EXPECT_EQ(ran.err, "");
    return Json::parse(ran.out)["findings"];
  }
  // Runs the command of a printed remedy, with the names of the object.
  void run_command(const std::string& remedy, const std::string& object);

  Answers api;
  Answers extender;
  Answers second;  // the other replica
  std::vector<std::string> doctor_words = {"doctor"};
  bool by_pods = false;  // by kubectl port-forward

 private:
  std::string space() const { return "/api/v1/namespaces/" + in_ + "/"; }
  std::string lease_path() const {
    return "/apis/coordination.k8s.io/v1/namespaces/" + in_ + "/leases";
  }
  static std::string url(const ScriptedServer& server) {
    return "http://127.0.0.1:" + std::to_string(server.port());
  }
  // kube-scheduler gets some time for a new pod.
  void start_memory() {
    const auto now = std::chrono::system_clock::now() - std::chrono::hours(1);
    memory_ = std::make_unique<kube::MemoryApiServer>(
        executor_, kube::MemoryApiServer::Options{
                       .start = std::chrono::time_point_cast<std::chrono::seconds>(now)});
  }
  void put_pod(const std::string& in, const std::string& pod, const std::string& program,
               const std::string& node, const std::string& address) {
    put("/api/v1/namespaces/" + in + "/pods",
        {{"metadata", {{"name", pod}, {"labels", {{"app.kubernetes.io/name", program}}}}},
         {"spec",
          {{"nodeName", node},
           {"serviceAccountName", "mgpu-extender"},
           {"containers", {{{"name", "c"}, {"image", "i"}}}}}}},
        {{"phase", "Running"},
         {"podIP", address},
         {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}});
  }
  void send(kube::Method method, const std::string& target, const Json& body) {
    kube::Request request;
    request.method = method;
    request.target = target;
    if (!body.is_null()) request.body = body.dump();
    request.content_type =
        method == kube::Method::kPatch ? "application/merge-patch+json" : "application/json";
    const kube::Response response = memory_->call(request);
    EXPECT_TRUE(response.ok()) << target << ": " << response.body;
  }
  // The server has no label selectors, and here nothing that they would leave out.
  Answers::Answer from_memory(const std::string& request, std::string target) {
    const std::size_t begin = target.find("&labelSelector=");
    if (begin != target.npos) target.erase(begin, target.find('&', begin + 1) - begin);
    kube::Request asked;
    asked.method = request.starts_with("PATCH ") ? kube::Method::kPatch : kube::Method::kGet;
    asked.target = target;
    asked.body = request.substr(request.find("\r\n\r\n") + 4);
    asked.content_type = header_of(request, "Content-Type");
    const kube::Response response = memory_->call(asked);
    return {response.status, response.body};
  }
  void do_call(const std::vector<std::string>& words);
  void apply(const std::string& manifest);

  ScratchFolder folder_;
  AsioExecutor executor_;
  std::unique_ptr<kube::MemoryApiServer> memory_;
  std::string in_;
  std::set<std::string> policies_;
  std::string lost_;
  const ScriptedServer api_server_{[this](Peer& peer) { api.serve(peer); }};
  const ScriptedServer extender_server_{[this](Peer& peer) { extender.serve(peer); }};
  const ScriptedServer second_server_{[this](Peer& peer) { second.serve(peer); }};
  // It notes its words, and what it is to apply from standard input.
  const FakeKubectl kubectl_{"case \"$*\" in *port-forward*mgpu-extender-2*) port=" +
                             std::to_string(second_server_.port()) +
                             ";; *port-forward*) port=" + std::to_string(extender_server_.port()) +
                             ";; *) echo \"$*\" >>$FAKE_KUBECTL/calls\n"
                             "[[ $* != *'-f -'* ]] || cat >$FAKE_KUBECTL/applied\nexit;; esac\n"
                             "echo \"Forwarding from 127.0.0.1:$port -> 9802\"; exec sleep 600"};
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  const std::size_t at = text.find(word);
  return at == text.npos ? text : text.replace(at, word.size(), by);
}

constexpr char kComponent[] = "app.kubernetes.io/component";

void World::run_command(const std::string& remedy, const std::string& object) {
  const std::size_t slash = object.find('/');
  std::string command = remedy.substr(0, remedy.find(','));
  command = replaced(command, "POD", object.substr(slash + 1));
  command = replaced(command, "NAMESPACE", object.substr(0, slash));
  command = replaced(command, "NODE", object.empty() ? "gpu-1" : object);
  const std::string script =
      "set -euo pipefail; cd '" MGPU_SOURCE_DIR "'; helm() { kubectl helm \"$@\"; }; " + command;
  std::ofstream(folder_.path("script")) << script;
  ASSERT_EQ(std::system(("bash " + folder_.path("script")).c_str()), 0) << command;
  for (const std::string& call : split(kubectl_.file("calls"), '\n')) {
    if (!call.empty()) do_call(split(call, ' '));
  }
}

void World::do_call(const std::vector<std::string>& words) {
  const std::string verb = words.at(0);
  if (verb == "mgpu") {
    if (words.at(1) == "doctor") {
      doctor_words = {words.begin() + 1, words.end()};
      return;
    }
    std::vector<std::string> own(words.begin() + 1, words.end());
    own.insert(own.end(), {"--kubeconfig", folder_.path("config")});
    EXPECT_EQ(run(own).code, 0);
  } else if (verb == "label" || verb == "annotate") {
    ASSERT_EQ(words.at(1), "node");
    const std::string change = words.at(3);
    const std::size_t equal = change.find('=');
    const bool removes = equal == change.npos;
    const Json value = removes ? Json() : Json(change.substr(equal + 1));
    const std::string key = removes ? change.substr(0, change.size() - 1) : change.substr(0, equal);
    patch("/api/v1/nodes/" + words.at(2), {{"metadata", {{verb + "s", {{key, value}}}}}});
    if (verb == "annotate") annotate(key.c_str(), nullptr);
  } else if (verb == "delete") {
    remove("/api/v1/namespaces/" + words.at(4) + "/pods/" + words.at(2));
    extender.set("/inspect/cluster", R"({"totals": {}, "drift": []})");
  } else if (verb == "helm") {
    EXPECT_THAT(words, testing::Contains(in_));
    find_policy();
  } else {
    ASSERT_EQ(verb, "apply");
    EXPECT_EQ(words.back(), std::string(kComponent) + "=access");
    apply(kubectl_.file("applied"));
  }
}

// What is made for another namespace would take the rights of this one.
void World::apply(const std::string& manifest) {
  EXPECT_THAT(manifest, testing::HasSubstr("system:serviceaccount:" + in_ + ":mgpu-extender"));
  const auto documents = yaml::read_documents(manifest);
  ASSERT_TRUE(documents) << documents.error().message;
  auto names = policies_;
  for (const yaml::Value& document : *documents) {
    if (document.text_of("kind") != "ValidatingAdmissionPolicy") continue;
    if (document["metadata"]["labels"].text_of(kComponent) != "access") continue;
    names.insert(document["metadata"].text_of("name"));
  }
  set_policies(names);
}

struct Situation {
  const char* remedy;  // the beginning of its text
  std::function<void(World&)> cause;
  std::function<void(World&)> act{};  // empty: the command is run
};

// What an API server, kubelet or extender answers before and after.
Situation answers(const char* remedy, const std::string& path, const std::string& bad,
                  const std::string& good, int status = 200, int good_status = 200) {
  return {remedy, [=](World& world) { world.api.set(path, bad, status); },
          [=](World& world) { world.api.set(path, good, good_status); }};
}
Situation extender_says(const char* remedy, const std::string& path, const std::string& bad,
                        const std::string& good, int status = 200) {
  return {remedy, [=](World& world) { world.extender.set(path, bad, status); },
          [=](World& world) { world.extender.set(path, good); }};
}
Situation node_has(const char* remedy, const Json& bad, const Json& good) {
  return {remedy, [=](World& world) { world.set_node(bad); },
          [=](World& world) { world.set_node(good); }};
}

Json conditions(const std::string& type, const std::string& status) {
  Json list = {{{"type", "MGPUReady"}, {"status", "True"}},
               {{"type", "MGPUCardsExclusive"}, {"status", "True"}}};
  for (Json& one : list) {
    if (one["type"] == type) one["status"] = status;
  }
  return {{"conditions", list}};
}

const Json kReady = {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
const Json kNotReady = {{"conditions", {{{"type", "Ready"}, {"status", "False"}}}}};
const Json kAssumed = {{"vke.volcengine.com/assumed", "true"}};

void set_service_account(World& world, const std::string& metadata, int status = 200) {
  world.api.set("/api/v1/namespaces/kube-system/serviceaccounts/mgpu-extender",
                R"({"metadata": )" + metadata + "}", status);
  world.lose_policy();
}

// Each once.
const std::vector<Remedy>& all_remedies() {
  static const std::vector<Remedy> remedies = [] {
    std::vector<Remedy> all = kubectl::other_remedies();
    for (const kubectl::Check& check : kubectl::all_checks()) {
      for (const kubectl::Rules& table : check.tables) {
        for (const kubectl::Rule& rule : table.rules) all.push_back(rule.remedy);
      }
    }
    std::set<std::string> texts = {""};
    std::erase_if(all, [&](const Remedy& one) { return !texts.insert(one.text).second; });
    return all;
  }();
  return remedies;
}

Remedy remedy_of(const Situation& situation) {
  Remedy found;
  for (const Remedy& one : all_remedies()) {
    if (std::string_view(one.text) == situation.remedy) return one;
    if (!std::string_view(one.text).starts_with(situation.remedy)) continue;
    EXPECT_EQ(found.act, Act::kNone) << "several begin with: " << situation.remedy;
    found = one;
  }
  return found;
}

std::vector<Situation> situations() {
  const std::string ready = R"({"ready": true, "api_server": "answers")";
  const std::string drift =
      R"({"totals": {}, "drift": [{"namespace": "d", "name": "p", "node": "gpu-1",
                                "drift": "BindingWithoutCards", "driftDetail": "x"}]})";
  const auto remove_second = [](World& world) {
    world.remove("/api/v1/namespaces/mgpu-system/pods/mgpu-extender-2");
  };
  const auto remove_pod = [](World& world) { world.remove("/api/v1/namespaces/d/pods/p"); };
  return {
      answers("upgrade Kubernetes to 1.30 or later", "/version", R"({"gitVersion": "v1.24.0"})",
              R"({"gitVersion": "v1.30.0"})"),
      answers("upgrade Kubernetes to 1.30 or later; deploy/SECURITY.md", "/version",
              R"({"gitVersion": "v1.29.0"})", R"({"gitVersion": "v1.30.0"})"),
      {"check the kubeconfig", [](World& world) { world.write_config(1); },
       [](World& world) { world.repair_config(); }},
      answers("use a context whose user has", kPolicies, kForbidden, list_of(""), 403),
      answers("use a context whose user may create", kReviews, kForbidden,
              R"({"status": {"allowed": true}})", 403, 201),
      answers("use a context whose user may get", kConfigz, kForbidden, R"({"kubeletconfig": {}})",
              403),
      answers("try again; if it", kPolicies, "{}", list_of(""), 500),
      {"kubectl mgpu doctor --namespace NAMESPACE",
       [](World& world) {
         world.doctor_words = {"doctor", "--namespace", "other"};
       }},
      {"remove all but", [](World& world) { world.put_extender("mgpu-system", 2); }, remove_second},
      {"kubectl mgpu doctor --namespace {0}",
       [](World& world) {
         world.move("mine");
         world.by_pods = true;
         world.api.set(kReviews, R"({"status": {"allowed": false}})", 201);
       }},
      {"leave one installation",
       [](World& world) {
         world.put_extender("mgpu-system", 2);
         world.lose_policy();
       },
       remove_second},
      {"install it again", [](World& world) { set_service_account(world, "{}", 403); },
       [](World& world) { world.find_policy(); }},
      {"helm upgrade",
       [](World& world) {
         set_service_account(world, R"({"annotations": {"meta.helm.sh/release-name": "cards"}})");
       }},
      {"sed ",
       [](World& world) {
         world.move("mine");
         world.lose_policy();
       }},
      {"install it as deploy/INSTALL.md",
       [](World& world) {
         world.remove_installation();
         world.by_pods = true;
       },
       [](World& world) { world.install("kube-system"); }},
      {"let kube-scheduler call",
       [](World& world) {
         world.put_user_pod("");
         world.extender.set("/metrics", metrics("0"));
       },
       [](World& world) { world.extender.set("/metrics", metrics("1")); }},
      answers("let each kube-scheduler", "/api/v1/namespaces/kube-system/configmaps?",
              list_of(R"({"metadata": {"name": "m", "namespace": "kube-system"}, "data": {"c":
                "kind: KubeSchedulerConfiguration\nextenders: [{bindVerb: a}, {bindVerb: b}]"}})"),
              list_of("")),
      answers("remove spec.extendedResourceName", "/apis/resource.k8s.io/v1/deviceclasses?",
              list_of(R"({"metadata": {"name": "c"},
                          "spec": {"extendedResourceName": "vke.volcengine.com/mgpu-core"}})"),
              list_of("")),
      {"check urlPrefix, tlsConfig",
       [](World& world) {
         world.put_user_pod("");
         world.patch("/api/v1/namespaces/d/pods/p/status",
                     {{"status",
                       {{"conditions",
                         {{{"type", "PodScheduled"},
                           {"status", "False"},
                           {"reason", "SchedulerError"}}}}}}});
       },
       [](World& world) {
         world.patch("/api/v1/namespaces/d/pods/p/status",
                     {{"status", {{"conditions", Json::array()}}}});
       }},
      extender_says(
          "check the client", "/metrics",
          metrics("3", R"(mgpu_extender_http_refused_total{listener="verbs",why="tls"} 1)"),
          metrics("3")),
      extender_says("compare the extenders", "/metrics",
                    metrics("3", "mgpu_extender_bad_requests_total 1"), metrics("3")),
      extender_says("renew the CA as", "/metrics", expiry("ca", 100), expiry("ca", 3000)),
      extender_says("renew it; where", "/metrics", expiry("server", -1), expiry("server", 300)),
      extender_says("see the findings", "/metrics", "", metrics("3"), 500),
      extender_says("create a pod with", "/metrics", metrics("0"), metrics("1")),
      {"kubectl mgpu explain", [](World& world) { world.put_user_pod(""); }, remove_pod},
      {"synchronize the clocks",
       [](World& world) {
         world.set_lease({{"renewTime", "2100-01-01T00:00:00.000000Z"}});
       },
       [](World& world) {
         world.set_lease({{"renewTime", nullptr}});
       }},
      answers("repair or delete",
              "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices?",
              list_of(R"({"endpoints": 7})"), list_of("")),
      {"see kubectl logs and kubectl describe pod, and",
       [](World& world) { world.set_pod("mgpu-extender-1", kNotReady); },
       [](World& world) { world.set_pod("mgpu-extender-1", kReady); }},
      extender_says("kubectl port-forward needs", "/readyz", "no", ready + "}"),
      extender_says("the listener of", "/metrics", "", metrics("3"), 403),
      extender_says("the log of the extender has", "/readyz", R"({"ready": false})", ready + "}"),
      extender_says("check the network", "/readyz",
                    R"({"ready": true, "api_server": "no answer for 9 s"})", ready + "}"),
      extender_says("let the service", "/readyz",
                    ready + R"(, "without": ["2 pods that cannot be changed"]})", ready + "}"),
      extender_says("the log of the extender names", "/readyz",
                    ready + R"(, "unreadable_objects": {"pods": 2}})", ready + "}"),
      {"wait for the end",
       [](World& world) {
         world.put_extender("kube-system", 2);
         world.second.set("/version", R"({"version": "9.9.9"})");
         world.by_pods = true;
       },
       [](World& world) { world.second.set("/version", R"({"version": ")" MGPU_VERSION R"("})"); }},
      extender_says("use the kubectl-mgpu", "/version", R"({"version": "9.9.9"})",
                    R"({"version": ")" MGPU_VERSION R"("})"),
      {"upgrade step by",
       [](World& world) {
         world.patch("/api/v1/namespaces/kube-system/pods/plugin",
                     {{"metadata", {{"labels", {{"app.kubernetes.io/version", "9.9.9"}}}}}});
       },
       [](World& world) {
         world.patch("/api/v1/namespaces/kube-system/pods/plugin",
                     {{"metadata", {{"labels", {{"app.kubernetes.io/version", MGPU_VERSION}}}}}});
       }},
      {"find who writes",
       [](World& world) {
         world.set_lease({{"holderIdentity", "somebody"}});
       },
       [](World& world) {
         world.set_lease({{"holderIdentity", "mgpu-extender-1_0123456789abcdef"}});
       }},
      {"see whether the pods",
       [](World& world) {
         world.set_lease({{"holderIdentity", nullptr}});
       },
       [](World& world) {
         world.set_lease({{"holderIdentity", "mgpu-extender-1_0123456789abcdef"}});
       }},
      answers("see why the extender",
              std::string("/apis/coordination.k8s.io/v1/namespaces/kube-system/") + kLease, "{}",
              R"({"spec": {"holderIdentity": "mgpu-extender-1_0123456789abcdef"}})", 404),
      {"the extender that leads writes them",
       [](World& world) { world.set_endpoints(Json::array()); },
       [](World& world) {
         world.set_endpoints({{{"addresses", {"10.0.0.1"}}}});
       }},
      {"the extender that leads writes the EndpointSlice",
       [](World& world) {
         world.set_endpoints({{{"addresses", {"10.9.9.9"}}}});
       },
       [](World& world) {
         world.set_endpoints({{{"addresses", {"10.0.0.1"}}}});
       }},
      {"kubectl label node NODE {0}/mgpu-node=true",
       [](World& world) { world.annotate(kCards, nullptr); }},
      {"see whether the DaemonSet",
       [](World& world) {
         world.remove("/api/v1/namespaces/kube-system/pods/plugin");
         world.set_node(conditions("MGPUReady", "False"));
       },
       [](World& world) { world.put_plugin(); }},
      {"see kubectl logs and kubectl describe pod of",
       [](World& world) { world.set_pod("plugin", kNotReady); },
       [](World& world) { world.set_pod("plugin", kReady); }},
      {"the device plugin", [](World& world) { world.annotate(kCards, "x"); },
       [](World& world) { world.annotate(kCards, cards("Healthy")); }},
      {"correct the labels",
       [](World& world) { world.annotate(kCards, cards("Healthy", R"("profileProblem": "x", )")); },
       [](World& world) { world.annotate(kCards, cards("Healthy")); }},
      {"where programs of several users",
       [](World& world) { world.annotate(kCards, cards("Healthy", R"("isolation": "none", )")); },
       [](World& world) {
         world.annotate(kCards, cards("Healthy", R"("isolation": "intercept", )"));
       }},
      {"see the message", [](World& world) { world.annotate(kCards, cards("XID 79")); },
       [](World& world) { world.annotate(kCards, cards("Healthy")); }},
      node_has("kubelet reports it", {{"capacity", {{"vke.volcengine.com/mgpu-core", nullptr}}}},
               {{"capacity", {{"vke.volcengine.com/mgpu-core", "100"}}}}),
      {"kubectl annotate node",
       [](World& world) { world.annotate("vke.volcengine.com/mgpu-cordoned-cards", "x"); }},
      {"kubectl mgpu uncordon-card",
       [](World& world) { world.annotate("vke.volcengine.com/mgpu-cordoned-cards", "0"); }},
      {"kubectl label node NODE {0}-",
       [](World& world) {
         world.patch(
             "/api/v1/nodes/gpu-1",
             {{"metadata", {{"labels", {{"vke.volcengine.com/mgpu-release-driver", "true"}}}}}});
       }},
      node_has("follow the message", conditions("MGPUReady", "False"), conditions("", "")),
      answers("remove it from", kConfigz,
              R"({"kubeletconfig": {"featureGates": {"KubeletPodResources": false}}})",
              R"({"kubeletconfig": {}})"),
      {"set featureGates: {ResourceHealthStatus",
       [](World& world) {
         world.set_node({{"nodeInfo", {{"kubeletVersion", "v1.36.0"}}}});
       },
       [](World& world) {
         world.api.set(kConfigz,
                       R"({"kubeletconfig": {"featureGates": {"ResourceHealthStatus": false,
                                     "ResourceHealthStatusMessage": false}}})");
       }},
      node_has("upgrade kubelet", {{"nodeInfo", {{"kubeletVersion", "v1.24.0"}}}},
               {{"nodeInfo", {{"kubeletVersion", "v1.35.0"}}}}),
      {"kubectl delete pod POD --namespace NAMESPACE, so",
       [](World& world) { world.put_user_pod("gpu-1", kAssumed); }},
      {"kubectl delete pod POD --namespace NAMESPACE, when",
       [](World& world) { world.put_user_pod("gpu-1"); }},
      {"kubectl delete pod POD --namespace NAMESPACE, unless",
       [](World& world) {
         world.put_user_pod("gone", {{"vke.volcengine.com/assumed", "true"},
                                     {"vke.volcengine.com/gpu-index-container-app", "0"}});
       }},
      {"remove them from", [](World& world) { world.put_user_pod("", kAssumed); }, remove_pod},
      {"kubectl delete pod POD --namespace NAMESPACE, which",
       [drift](World& world) {
         world.put_user_pod("gpu-1", {{"vke.volcengine.com/assumed", "true"},
                                      {"vke.volcengine.com/gpu-index-container-app", "0"}});
         world.extender.set("/inspect/cluster", drift);
       }},
      extender_says("kubectl mgpu drift", "/inspect/cluster", R"({"totals": {"cardsOverfull": 1}})",
                    R"({"totals": {}})"),
  };
}

// Whether `printed` is the text of the remedy with any names.
bool is_text_of(const Remedy& remedy, const std::string& printed) {
  const std::string pattern =
      std::regex_replace(std::string(remedy.text), std::regex(R"(\{\d\})"), "{}");
  std::size_t at = 0;
  for (std::size_t begin = 0; begin <= pattern.size();) {
    std::size_t end = std::min(pattern.find("{}", begin), pattern.size());
    const std::string part = pattern.substr(begin, end - begin);
    const std::size_t found = end == pattern.size() && printed.size() >= part.size()
                                  ? printed.size() - part.size()
                                  : printed.find(part, at);
    if (found == printed.npos || found < at || (begin == 0 && found != 0)) return false;
    if (printed.compare(found, part.size(), part) != 0) return false;
    at = found + part.size();
    begin = end + 2;
  }
  return at == printed.size();
}

// The finding with this remedy; null if there is none. Each printed remedy is one of the table.
Json find(const Json& findings, const Remedy& remedy) {
  Json found;
  for (const Json& finding : findings) {
    const std::string printed = finding.value("remedy", "");
    if (printed.empty()) continue;
    EXPECT_TRUE(std::ranges::any_of(all_remedies(), [&](const Remedy& one) {
      return is_text_of(one, printed);
    })) << printed;
    if (is_text_of(remedy, printed)) found = finding;
  }
  return found;
}

TEST(DoctorRemedies, AreNotNeededWhereNothingIsWrong) {
  World world;
  const Json findings = world.doctor();
  for (const Json& finding : findings) EXPECT_EQ(finding["status"], "ok") << finding;
}

TEST(DoctorRemedies, HelpInTheSituationsThatTheyAreFor) {
  std::set<std::string> tried;
  for (const Situation& situation : situations()) {
    SCOPED_TRACE(situation.remedy);
    const Remedy remedy = remedy_of(situation);
    tried.insert(remedy.text);
    World world;
    situation.cause(world);
    const Json before = world.doctor();
    const Json finding = find(before, remedy);
    EXPECT_FALSE(finding.is_null()) << before.dump(1);
    if (finding.is_null()) continue;
    EXPECT_EQ(situation.act == nullptr, remedy.act == Act::kRun);
    if (situation.act) {
      situation.act(world);
    } else {
      const Json& objects = finding.value("objects", Json::array());
      world.run_command(finding["remedy"], objects.empty() ? "" : objects[0].get<std::string>());
    }
    const Json after = world.doctor();
    EXPECT_TRUE(find(after, remedy).is_null()) << after.dump(1);
  }
  for (const Remedy& remedy : all_remedies()) {
    EXPECT_TRUE(tried.contains(remedy.text)) << "no situation for: " << remedy.text;
  }
}

// What only shows something changes nothing.
TEST(DoctorRemedies, WhoLooksChangesNothing) {
  for (const Remedy& remedy : all_remedies()) {
    const std::string text = remedy.text;
    const bool is_command =
        text.starts_with("kubectl ") || text.starts_with("helm ") || text.starts_with("sed ");
    if (remedy.act == Act::kRun) {
      EXPECT_TRUE(is_command) << text;
    }
    for (const char* verb : {"kubectl apply", "kubectl delete", "kubectl patch", "helm "}) {
      if (remedy.act != Act::kRun) {
        EXPECT_THAT(text, testing::Not(testing::HasSubstr(verb)));
      }
    }
  }
}

}  // namespace
}  // namespace mgpu::test
