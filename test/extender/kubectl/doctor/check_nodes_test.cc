// The checks of nodes, kubelets and pods, by tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/kubectl/doctor/checks.h"
#include "test/extender/kubectl/doctor/check_cases.h"
#include "test/extender/kubectl/doctor/good_facts.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::ElementsAre;
using testing::HasSubstr;

Change with_node(const std::function<void(CheckedNode&)>& change) {
  return [change](Facts& facts) {
    CheckedNode node = facts.nodes->front();
    change(node);
    facts.nodes = std::vector{node};
  };
}

std::string domain_key(const std::string& name) {
  return std::string(kDomain) + "/" + name;
}

Change with_condition(const std::string& type, const std::string& status,
                      const std::string& message) {
  return with_node([=](CheckedNode& node) {
    for (kube::Condition& condition : node.conditions) {
      if (condition.type == type) condition = {type, status, "Reason", message};
    }
  });
}

TEST(NodeCheck, NeedsADevicePluginOnEachNodeWithCards) {
  const auto no_plugin = [](Facts& facts) {
    facts.plugin_pods = std::vector<ProgramPod>{};
    facts.nodes = std::vector{gpu_node("gpu-1"), gpu_node("gpu-2")};
    auto nodes = facts.nodes.value();
    for (CheckedNode& node : nodes) node.allocatable.clear();
    facts.nodes = nodes;
  };
  const auto crashes = [](Facts& facts) {
    ProgramPod pod = facts.plugin_pods->front();
    pod.ready = false;
    pod.waiting = "ImagePullBackOff";
    facts.plugin_pods = std::vector{pod};
  };
  expect_findings("nodes", {{"none",
                             no_plugin,
                             Level::kError,
                             "no mgpu-device-plugin runs on the node",
                             "DaemonSet",
                             {"gpu-1", "gpu-2"}},
                            {"outside of a pod",
                             [](Facts& facts) { facts.plugin_pods = std::vector<ProgramPod>{}; },
                             Level::kOk, "1 node with cards"},
                            {"not ready",
                             crashes,
                             Level::kError,
                             "not ready (ImagePullBackOff)",
                             "kubectl logs",
                             {"gpu-1"}}});
}

auto with_isolation(const std::string& isolation, const std::string& ready) {
  return with_node([=](CheckedNode& node) {
    node.annotations[domain_key("mgpu-cards")] = format_node_cards({}, {.isolation = isolation});
    node.conditions.front().message = ready;
  });
}

TEST(NodeCheck, ReadsTheCardsOfTheNode) {
  expect_findings(
      "nodes",
      {{"no annotation", with_node([](CheckedNode& node) { node.annotations.clear(); }),
        Level::kError, "the node has no annotation vke.volcengine.com/mgpu-cards", "log"},
       {"bad annotation",
        with_node([](CheckedNode& node) { node.annotations[domain_key("mgpu-cards")] = "{"; }),
        Level::kError, "cannot be read"},
       {"no core",
        with_node([](CheckedNode& node) { node.capacity[domain_key("mgpu-core")] = "0"; }),
        Level::kError, "the node has no vke.volcengine.com/mgpu-core", "MGPUReady"},
       {"no memory",
        with_node([](CheckedNode& node) { node.capacity.erase(domain_key("mgpu-memory")); }),
        Level::kError, "the node has no vke.volcengine.com/mgpu-memory"},
       {"sick card", with_node([](CheckedNode& node) {
          node.annotations[domain_key("mgpu-cards")] = format_node_cards(
              std::vector<CardFacts>{{CardIndex(3), CardUuid("GPU-3"), "V100", MiB(1), "XID 79"}});
        }),
        Level::kWarning, "card 3 is not healthy: XID 79"},
       {"reserved card", with_node([](CheckedNode& node) {
          node.annotations[domain_key("mgpu-cards")] = format_node_cards(std::vector<CardFacts>{
              {CardIndex(3), CardUuid("GPU-3"), "V100", MiB(1), "reserved by profile infer"}});
        }),
        Level::kOk, "with cards checked"},
       {"profile", with_node([](CheckedNode& node) {
          node.annotations[domain_key("mgpu-cards")] =
              format_node_cards({}, {.name = "a", .problem = "the labels match a and b"});
        }),
        Level::kWarning, "the labels match a and b", "correct the labels"},
       {"limits that were not wanted", with_isolation("none", "2 of 2 cards are healthy"),
        Level::kNote, "cards use: --isolation is none", "to auto"},
       {"limits that the node cannot have",
        with_isolation("none",
                       "cards are healthy; --isolation=auto is none, because /run is not "
                       "a shared mount"),
        Level::kWarning, "use: --isolation=auto is none, because /run is not a shared mount"},
       {"limits of the library", with_isolation("intercept", "2 of 2 cards are healthy"),
        Level::kOk, "with cards checked"},
       {"no cards at all", with_node([](CheckedNode& node) {
          node.labels.clear();
          node.annotations.clear();
        }),
        Level::kWarning, "no node has cards", "vke.volcengine.com/mgpu-node=true"}});
}

TEST(NodeCheck, ShowsTheConditionsOfTheNode) {
  expect_findings(
      "nodes", {{"not ready", with_condition("MGPUReady", "False", "libcuda.so.1 was not found"),
                 Level::kError, "MGPUReady is False (Reason): libcuda.so.1 was not found"},
                {"unknown", with_condition("MGPUReady", "Unknown", "NVML hangs"), Level::kWarning,
                 "MGPUReady is Unknown (Reason): NVML hangs"},
                {"absent", with_node([](CheckedNode& node) { node.conditions.clear(); }),
                 Level::kError, "no condition MGPUReady"},
                {"released", with_node([](CheckedNode& node) {
                   node.labels[domain_key("mgpu-release-driver")] = "true";
                 }),
                 Level::kNote, "release the driver", "mgpu-release-driver-, when"}});
}

TEST(NodeCheck, NamesOtherOwnersOfTheCards) {
  expect_findings(
      "nodes", {{"condition", with_condition("MGPUCardsExclusive", "False", "set x = false"),
                 Level::kWarning, "can allocate the cards of the node (Reason): set x = false"},
                {"unknown", with_condition("MGPUCardsExclusive", "Unknown", "CRI-O"), Level::kNote,
                 "it is not known who else can reach the cards of the node: CRI-O"}});
}

TEST(NodeCheck, ShowsCordonedCards) {
  const auto cordoned = [](const std::string& value) {
    return with_node([value](CheckedNode& node) {
      node.annotations[domain_key("mgpu-cordoned-cards")] = value;
    });
  };
  expect_findings("nodes", {{"two",
                             cordoned("0,3"),
                             Level::kNote,
                             "cards are cordoned: 0,3",
                             "kubectl mgpu uncordon-card",
                             {"gpu-1"}},
                            {"unreadable",
                             cordoned("all"),
                             Level::kWarning,
                             "cannot be read, so that no card is cordoned",
                             "kubectl annotate node NODE",
                             {"gpu-1"}}});
}

TEST(NodeCheck, KnowsNodesByTheirLabels) {
  struct Case {
    kube::StringMap labels;
    bool cards;
  };
  const Case cases[] = {
      {{}, false},
      {{{"nvidia.com/gpu.present", "true"}}, false},
      {{{domain_key("mgpu-node"), "true"}}, true},
      {{{domain_key("mgpu-node"), "false"}, {"nvidia.com/gpu.present", "true"}}, false},
  };
  for (const Case& one : cases) {
    CheckedNode node;
    node.labels = one.labels;
    EXPECT_EQ(has_cards(node, *Contract::for_domain(kDomain)), one.cards)
        << testing::PrintToString(one.labels);
  }
}

TEST(KubeletCheck, KnowsVersionsAndFeatureGates) {
  const auto gate = [](const std::string& name, bool value) {
    return [=](Facts& facts) { facts.gates = std::vector{KubeletGates{"gpu-1", {{name, value}}}}; };
  };
  const auto version = [](const std::string& text) {
    return with_node([text](CheckedNode& node) { node.kubelet_version = text; });
  };
  expect_findings(
      "kubelets",
      {{"1.24",
        version("v1.24.9"),
        Level::kError,
        "kubelet has version v1.24.9",
        "upgrade kubelet",
        {"gpu-1"}},
       {"1.36", version("v1.36.3"), Level::kNote, "every few seconds",
        "ResourceHealthStatus: false"},
       {"no PodResources", gate("KubeletPodResources", false), Level::kError,
        "shares of deleted pods are not released"},
       {"PodResources", gate("KubeletPodResources", true), Level::kOk, "suffice"},
       {"no CDI in kubelet", gate("DevicePluginCDIDevices", false), Level::kOk, "suffice"},
       {"forbidden",
        [](Facts& facts) {
          facts.gates = {Missing::kForbidden, "HTTP 403"};
        },
        Level::kNote, "not checked: HTTP 403", "nodes/proxy"},
       {"only some", [](Facts& facts) { facts.gates = std::vector<KubeletGates>{}; }, Level::kNote,
        "0 of 1 kubelets were checked"}});
}

TEST(PodCheck, ComparesAnnotationsWithCards) {
  const auto bound = [](const GpuPod& pod) {
    return [pod](Facts& facts) { facts.bound_pods = std::vector{pod}; };
  };
  using Annotations = std::map<std::string, std::string>;
  const auto on = [](const char* cards) {
    return Annotations{{"assumed", "true"}, {"gpu-index-container-app", cards}};
  };
  expect_findings(
      "pods", {{"good", bound(gpu_pod("p", "gpu-1", on("0"))), Level::kOk, "for 1 bound pod"},
               {"no annotations",
                bound(gpu_pod("p", "gpu-1", {})),
                Level::kError,
                "was bound without annotations",
                "bindVerb",
                {"default/p"}},
               {"unknown card",
                bound(gpu_pod("p", "gpu-1", on("2"))),
                Level::kError,
                "name a card that its node does not have",
                "",
                {"default/p"}},
               {"unknown node", bound(gpu_pod("p", "gone", on("0"))), Level::kError,
                "a node that does not exist"},
               {"damaged", bound(gpu_pod("p", "gpu-1", on("x"))), Level::kError,
                "do not match its request", "SECURITY.md"},
               {"without a node",
                [&](Facts& facts) { facts.waiting_pods = std::vector{gpu_pod("w", "", on("0"))}; },
                Level::kWarning,
                "has the annotations of a bound pod, and no node",
                "manifest",
                {"default/w"}}});
}

TEST(PodCheck, DoesNotMissNodesThatWereNotSelected) {
  Facts facts = good_facts();
  facts.node_selector = "pool=a";
  facts.bound_pods = std::vector{
      gpu_pod("p", "elsewhere", {{"assumed", "true"}, {"gpu-index-container-app", "0"}})};
  EXPECT_THAT(findings_of("pods", facts), ElementsAre(testing::Field(&Finding::level, Level::kOk)));
}

TEST(PodCheck, ShowsTheDriftThatTheExtenderReports) {
  const auto drift = [](const std::string& pod) {
    return [pod](Facts& facts) {
      facts.replicas[0].cluster =
          InspectedCluster{0, {{{"default", pod}, "gpu-1", "ChangedAnnotations", "was 0"}}};
    };
  };
  const auto overfull = [](Facts& facts) { facts.replicas[1].cluster = InspectedCluster{2, {}}; };
  expect_findings("pods", {{"drift",
                            drift("p1"),
                            Level::kError,
                            "the extender reports drift (ChangedAnnotations): was 0",
                            "",
                            {"default/p1"}},
                           {"overfull", overfull, Level::kError, "2 cards have more in use"}});
  // A pod that another check reports is not reported again.
  Facts facts = good_facts();
  facts.bound_pods = std::vector{gpu_pod("p1", "gpu-1", {})};
  drift("p1")(facts);
  EXPECT_THAT(findings_of("pods", facts),
              ElementsAre(testing::Field(&Finding::what, HasSubstr("without annotations"))));
}

}  // namespace
}  // namespace mgpu::test
