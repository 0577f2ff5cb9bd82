// kubectl mgpu drift: what it prints, and how it asks the extender and the device plugins.
#include "extender/kubectl/drift.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/rfc3339.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"
#include "test/extender/kubectl/fake_kubectl.h"
#include "test/extender/kubectl/golden_view.h"
#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const std::string kGolden = MGPU_SOURCE_DIR "/test/golden/kubectl/";

constexpr const char* kPluginAnswer =
    R"({"node": "gpu-1", "items": [
  {"kind": "ProcessWithoutShare", "namespace": "research", "pod": "notebook", "container": "app",
   "card": 0, "uuid": "GPU-0", "since": "2026-01-01T09:00:00Z",
   "message": "process 17 (\"python3\") of container \"app\" of pod research/notebook uses card 0 )"
    R"((GPU-0) without a share of it; delete the pod, and create it with a request and without )"
    R"(other access to the cards: privileged, a volume of /dev, or NVIDIA_VISIBLE_DEVICES"},
  {"kind": "ProcessWithoutShare", "card": 1, "uuid": "GPU-1", "since": "2026-01-01T11:59:30Z",
   "message": "process 4711 (\"python3\") on card 1 (GPU-1) belongs to no pod, and uses what )"
    R"(pods hold of it; end it, or reserve the card with a profile"},
  {"kind": "ChangedAnnotations", "namespace": "team-b", "pod": "edited", "container": "app",
   "message": "container \"app\" of pod team-b/edited was started on card 0, and its annotation )"
    R"(vke.volcengine.com/gpu-index-container-app is \"1\"; set it to \"0\" again, or )"
    R"(delete the pod: its container does not start again, and an extender that starts )"
    R"(counts other cards"}],
  "leftOut": 0})";

constexpr const char* kCluster = R"({"totals": {"podsDrifting": 2, "cardsOverfull": 1},
  "nodes": [{"name": "gpu-1", "pods": 2, "cards": [
    {"index": 0, "uuid": "GPU-0", "model": "A10", "healthy": true, "uncertain": false, "pods": 2,
     "overfull": true, "overfullDetail": "card 0 has more in use than its capacity: pods )"
                                 R"(team-b/one, team-b/two; delete one",
     "core": {"capacity": 100, "used": 130, "free": 0, "expected": 0},
     "memoryMiB": {"capacity": 24000, "used": 8000, "free": 16000, "expected": 0}},
    {"index": 1, "uuid": "GPU-1", "model": "A10", "healthy": true, "uncertain": false, "pods": 0,
     "core": {"capacity": 100, "used": 110, "free": 0, "expected": 0},
     "memoryMiB": {"capacity": 24000, "used": 26000, "free": 0, "expected": 0}}]}],
  "drift": [
    {"namespace": "team-b", "name": "by-hand", "node": "gpu-1", "drift": "BindingWithoutCards",
     "driftDetail": "no annotation vke.volcengine.com/gpu-index-container-<container>"},
    {"namespace": "team-b", "name": "edited", "node": "gpu-1", "drift": "ChangedAnnotations",
     "driftDetail": "the annotations were changed after the pod was bound; it still counts with )"
                                 R"(its cards of then, app 0"}]})";

std::vector<DriftItem> some_items() {
  const Json cluster = Json::parse(kCluster);
  const auto nodes = read_inspected_nodes(cluster);
  auto items = extender_drift(cluster, *nodes)->items;
  const auto plugin = plugin_drift(kPluginAnswer, "gpu-1");
  items.insert(items.end(), plugin->items.begin(), plugin->items.end());
  return items;
}

DriftChoice all_pods() {
  DriftChoice choice;
  choice.pods.all = true;
  return choice;
}

std::vector<std::string> kinds_of(const std::vector<DriftItem>& items) {
  std::vector<std::string> kinds;
  for (const DriftItem& item : items) kinds.push_back(item.kind);
  return kinds;
}

Time noon() {
  return *read_rfc3339("2026-01-01T12:00:00Z");
}

TEST(DriftView, IsPrintedInEveryFormat) {
  expect_golden(drift_view(chosen_drift(some_items(), all_pods()), true, noon()),
                kGolden + "drift");
}

TEST(DriftView, IsHarmlessWhateverTheNames) {
  DriftItem item{.kind = hostile_text(), .node = hostile_text()};
  item.pod = {hostile_text(), hostile_text()};
  item.container = hostile_text();
  item.uuid = hostile_text();
  item.message = hostile_text();
  expect_harmless(drift_view({item}, true, noon()), 1);
}

TEST(DriftView, SaysThatThereIsNone) {
  const Shown shown = shown_as(drift_view({}, false, noon()), "table", false);
  EXPECT_THAT(shown.out, IsEmpty());
  EXPECT_EQ(shown.err, "No drift found.\n");
}

TEST(ChosenDrift, LeavesOutOtherNamespacesAndKeepsTheFindingsOfNodes) {
  DriftChoice choice;
  choice.name_space = "research";
  EXPECT_THAT(kinds_of(chosen_drift(some_items(), choice)),
              ElementsAre("OverfullCard", "ProcessWithoutShare", "ProcessWithoutShare"));
}

TEST(ChosenDrift, OfNamedOrSelectedPodsHasNothingElse) {
  DriftChoice choice = all_pods();
  choice.pods.names = {"by-hand"};
  EXPECT_THAT(kinds_of(chosen_drift(some_items(), choice)), ElementsAre("BindingWithoutCards"));
  choice.pods.names.clear();
  choice.selected = std::set<PodRef>{PodRef{"research", "notebook"}};
  EXPECT_THAT(kinds_of(chosen_drift(some_items(), choice)), ElementsAre("ProcessWithoutShare"));
}

TEST(ChosenDrift, OfANodeHasNothingElse) {
  DriftChoice choice = all_pods();
  choice.nodes = {"gpu-2"};
  EXPECT_THAT(chosen_drift(some_items(), choice), IsEmpty());
}

TEST(ChosenDrift, ShowsWhatBothReportOnce) {
  const auto items = chosen_drift(some_items(), all_pods());
  const auto changed = std::ranges::find(items, "ChangedAnnotations", &DriftItem::kind);
  ASSERT_NE(changed, items.end());
  EXPECT_TRUE(changed->from_plugin);
  EXPECT_EQ(std::ranges::count(items, "ChangedAnnotations", &DriftItem::kind), 1);
}

// A pod that was bound without annotations counts as in use on each card, and is on one at most.
TEST(ExtenderDrift, HasTheOverfullCardsThatTheExtenderNames) {
  const Json cluster = Json::parse(kCluster);
  const auto items = extender_drift(cluster, *read_inspected_nodes(cluster))->items;
  ASSERT_THAT(kinds_of(items),
              ElementsAre("BindingWithoutCards", "ChangedAnnotations", "OverfullCard"));
  EXPECT_EQ(items[2].card, 0);
  EXPECT_EQ(items[2].message,
            "card 0 has more in use than its capacity: pods team-b/one, team-b/two; delete one");
}

TEST(ExtenderDrift, SaysWhatToDoAboutAPod) {
  const Json cluster = Json::parse(kCluster);
  const auto items = extender_drift(cluster, {})->items;
  EXPECT_EQ(items.at(0).message,
            "no annotation vke.volcengine.com/gpu-index-container-<container>; delete the pod");
  EXPECT_THAT(items.at(1).message, EndsWith("; write the annotations of the binding again, or "
                                            "delete the pod"));
}

TEST(ChosenDrift, APluginDoesNotReplaceTheFindingsOfOtherNodes) {
  DriftItem ours{.kind = "ChangedAnnotations", .node = "gpu-1"};
  ours.pod = {"a", "p"};
  DriftItem theirs = ours;
  theirs.node = "gpu-2";
  theirs.from_plugin = true;
  EXPECT_EQ(chosen_drift({ours, theirs}, all_pods()).size(), 2);
}

TEST(PluginDrift, NamesAnAnswerThatCannotBeRead) {
  for (const char* answer : {"[]", "<html>", "{}", R"({"items": 7})", R"({"items": [{}]})",
                             R"({"items": [{"kind": 7}]})", R"({"items": [], "leftOut": "x"})"}) {
    const auto read = plugin_drift(answer, "gpu-1");
    ASSERT_FALSE(read) << answer;
    EXPECT_THAT(read.error().message, HasSubstr("of the device plugin")) << answer;
  }
}

TEST(PluginDrift, HasAtMostSoManyFindings) {
  Json answer = {{"node", "gpu-1"}, {"items", Json::array()}, {"leftOut", 3}};
  for (std::size_t i = 0; i < kDriftItemsMax + 2; ++i) {
    answer["items"].push_back({{"kind", "ProcessWithoutShare"}});
  }
  const auto read = plugin_drift(answer.dump(), "");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->items, SizeIs(kDriftItemsMax));
  EXPECT_EQ(read->left_out, 5);
  EXPECT_EQ(read->items.front().node, "gpu-1");
}

// --- the command ---------------------------------------------------------------------------------

constexpr const char* kNothing = R"({"node": "gpu-1", "items": [], "leftOut": 0})";

class DriftVerbTest : public testing::Test {
 protected:
  DriftVerbTest() {
    cluster.extender.set("/readyz", R"({"ready": true})");
    cluster.extender.set("/inspect/cluster", R"({"nodes": [], "drift": []})");
    cluster.extender.set("/drift", kNothing);
  }
  // With the device plugin at the same address as the extender.
  Ran drift(std::vector<std::string> words) const {
    words.insert(words.begin(), "drift");
    words.insert(words.end(), {"--plugin-url", cluster.url()});
    return cluster.at_url(std::move(words));
  }
  ScriptedCluster cluster;
};

TEST_F(DriftVerbTest, WithoutFindingsItSucceeds) {
  const Ran ran = drift({"-A"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_EQ(ran.err, "No drift found.\n");
}

TEST_F(DriftVerbTest, FindingsAreExitCodeOne) {
  cluster.extender.set("/inspect/cluster", kCluster);
  cluster.extender.set("/drift", kPluginAnswer);
  const Ran ran = drift({"-A", "-o", "name"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "node/gpu-1\npod/notebook\npod/by-hand\npod/edited\n");
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST_F(DriftVerbTest, TheTableNamesTheFormatThatSaysWhatToDo) {
  constexpr const char* kHint = "\n-o wide shows what to do about each finding.\n";
  cluster.extender.set("/drift", kPluginAnswer);
  EXPECT_THAT(drift({"-A"}).out, EndsWith(kHint));
  EXPECT_THAT(drift({"-A", "-o", "wide"}).out, Not(HasSubstr(kHint)));
}

TEST_F(DriftVerbTest, SelectsPodsByTheirLabels) {
  cluster.extender.set("/drift", kPluginAnswer);
  cluster.api.set("/api/v1/namespaces/team-b/pods?",
                  list_of(R"({"metadata": {"name": "edited", "namespace": "team-b"}})"));
  const Ran ran = drift({"-n", "team-b", "-l", "app=x", "-o", "name"});
  EXPECT_EQ(ran.out, "pod/edited\n") << ran.err;
}

TEST_F(DriftVerbTest, SaysThatAPluginIsOlder) {
  cluster.extender.set("/drift", R"({"error": "path \"/drift\" not found"})", 404);
  const Ran ran = drift({"-A"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, StartsWith("No drift found in what could be read.\n"));
  EXPECT_THAT(ran.err, HasSubstr("the device plugin has no /drift, so that it is older than this "
                                 "program (" MGPU_VERSION "); update it\n"));
}

TEST_F(DriftVerbTest, ShowsWhatThePluginsReportWithoutTheExtender) {
  cluster.extender.set("/drift", kPluginAnswer);
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?", list_of(""));
  const Ran ran = cluster.with_config({"drift", "-A", "--plugin-url", cluster.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("ProcessWithoutShare"));
  EXPECT_THAT(ran.err, HasSubstr("no pod of mgpu-extender runs in namespace mgpu-system"));
}

TEST_F(DriftVerbTest, SaysThatFindingsAreLeftOut) {
  cluster.extender.set("/inspect/cluster",
                       R"({"totals": {"podsDrifting": 7}, "nodes": [], "drift": []})");
  cluster.extender.set("/drift", R"({"node": "gpu-1", "items": [], "leftOut": 2})");
  const Ran ran = drift({"-A"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr("the extender has 7 more findings, which are not listed"),
                    HasSubstr("a device plugin has 2 more findings, which are not listed")));
}

TEST_F(DriftVerbTest, ARightThatIsMissingIsOneSentence) {
  cluster.extender.set("/inspect/cluster", R"({"error": "the user may not get /inspect"})", 403);
  cluster.api.set("/api/v1/namespaces/mgpu-system/pods?",
                  R"({"kind": "Status", "message": "pods is forbidden: user \"anna\""})", 403);
  const Ran ran = cluster.at_url({"drift"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("the ClusterRole mgpu-inspection-reader permits it"),
                             HasSubstr("list the device plugins in namespace mgpu-system: HTTP "
                                       "403: pods is forbidden: user \"anna\"\n")));
}

std::string plugin_pod(const std::string& name, const std::string& node) {
  return R"({"metadata": {"name": ")" + name +
         R"(", "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "mgpu",
            "app.kubernetes.io/component": "device-plugin"}}, "spec": {"nodeName": ")" +
         node + R"("}, "status": {"phase": "Running"}})";
}

TEST_F(DriftVerbTest, NamesTheNodesThatCouldNotBeAsked) {
  cluster.extender.set("/inspect/cluster", kCluster);
  cluster.api.set("/api/v1/namespaces/kube-system/pods?",
                  list_of(plugin_pod("one", "gpu-2") + "," + plugin_pod("two", "gpu-3")));
  const FakeKubectl kubectl(
      "case $* in *pod/two*) echo 'error: no right' >&2; exit 1;; esac; "
      "echo Forwarding from 127.0.0.1:" +
      std::to_string(cluster.extender_server.port()) + " '->' 9801; exec sleep 600");
  const Ran ran = cluster.at_url({"drift", "-A", "-o", "json"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(nlohmann::json::parse(ran.out)["items"].size(), 3) << "of the extender";
  EXPECT_THAT(ran.err, HasSubstr("read the drift of kube-system/two on node gpu-3: "));
  EXPECT_THAT(ran.err,
              HasSubstr("no device plugin runs on 1 of 1 nodes in namespace kube-system: gpu-1;"));
  EXPECT_THAT(ran.err, Not(HasSubstr("gpu-2")));
}

TEST_F(DriftVerbTest, SumsUpWhatCouldNotBeRead) {
  std::string pods;
  for (int i = 0; i < 40; ++i) {
    pods += (i == 0 ? "" : ",") + plugin_pod(fmt::format("p{}", i), fmt::format("gpu-{}", i));
  }
  cluster.api.set("/api/v1/namespaces/kube-system/pods?", list_of(pods));
  const FakeKubectl kubectl("echo 'error: no right' >&2; exit 1");
  const Ran ran = cluster.at_url({"drift", "-A"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 7);
  EXPECT_THAT(ran.err, HasSubstr("kubectl mgpu: 35 more like these\n"));
}

TEST_F(DriftVerbTest, AsksThePluginsOfTheNodesThatAreNamed) {
  cluster.api.set("/api/v1/namespaces/kube-system/pods?",
                  list_of(plugin_pod("one", "gpu-2") + "," + plugin_pod("two", "gpu-3")));
  const FakeKubectl kubectl("echo \"$@\" >>$FAKE_KUBECTL/words; echo Forwarding from 127.0.0.1:" +
                            std::to_string(cluster.extender_server.port()) +
                            " '->' 9801; exec sleep 600");
  const Ran ran = cluster.at_url({"drift", "--node", "gpu-3", "--node", "gpu-4"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(kubectl.file("words"), AllOf(HasSubstr("pod/two"), Not(HasSubstr("pod/one"))));
  EXPECT_THAT(ran.err,
              HasSubstr("no device plugin runs on 1 of 2 nodes in namespace kube-system: gpu-4;"));
  EXPECT_EQ(cluster.at_url({"drift", "--node", "a b"}).code, 2);
}

}  // namespace
}  // namespace mgpu::test
