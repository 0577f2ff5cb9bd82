#include "extender/ledger/consumers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::assume_id;
using test::facts_of;
using test::used_text;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = kube::WatchEvent::Kind;

std::string node_json(const std::string& name, int cards) {
  return R"({"metadata":{"name":")" + name + R"("},"status":{"capacity":{)" +
         R"("vke.volcengine.com/mgpu-core":")" + std::to_string(cards * 100) +
         R"(","vke.volcengine.com/mgpu-memory":")" + std::to_string(cards * 1000) + R"("}}})";
}

struct PodText {
  std::string uid;
  std::string node = "n1";
  std::string cards = "0";
  std::string phase = "Running";
  std::string core = "30";

  std::string json() const {
    return R"({"metadata":{"name":")" + uid + R"(","namespace":"default","uid":")" + uid +
           R"(","annotations":{"vke.volcengine.com/gpu-index-container-main":")" + cards +
           R"("}},"spec":{"nodeName":")" + node +
           R"(","containers":[{"name":"main","resources":{"limits":{)" +
           R"("vke.volcengine.com/mgpu-core":")" + core +
           R"(","vke.volcengine.com/mgpu-memory":"300"}}}]},"status":{"phase":")" + phase +
           R"("}})";
  }
};

class ConsumersTest : public testing::Test {
 protected:
  ConsumersTest() {
    node({Kind::kApply, node_json("n1", 2)});
    node({Kind::kApply, node_json("n2", 1)});
  }

  void node(const kube::WatchEvent& event) { take(node_events.on_event(event)); }
  void pod(const kube::WatchEvent& event) { take(pod_events.on_event(event)); }
  void take(const kube::Delivered& delivered) {
    if (!delivered.unreadable.empty()) problems.push_back(delivered.unreadable);
  }
  void pod(Kind kind, const PodText& text = {}) {
    const bool bare = kind == Kind::kRelistBegin || kind == Kind::kRelistEnd;
    pod(kube::WatchEvent{kind, bare ? "" : text.json()});
  }

  Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  Ledger ledger;
  std::vector<std::string> problems;
  std::function<void(const std::string&)> on_problem = [this](const std::string& problem) {
    problems.push_back(problem);
  };
  kube::ObjectEvents<NodeFacts> node_events{node_consumer(ledger, contract, on_problem)};
  std::vector<std::string> settled;
  std::vector<std::string> running;
  std::vector<std::string> drifts;
  kube::ObjectEvents<PodFacts> pod_events{pod_consumer(
      ledger, contract,
      {.on_settled = [this](const PodUid& uid) { settled.push_back(uid.str()); },
       .on_running =
           [this](const PodRef& pod, const NonGpuPod& facts, const GpuRequest& request) {
             running.push_back(pod.name_space + "/" + facts.uid.str() + " " +
                               std::to_string(request.containers.size()));
           },
       .on_drift =
           [this](const DriftChange& change) {
             drifts.push_back(change.pod.name + " " + test::text_of(change.drift));
           }})};
};

TEST_F(ConsumersTest, NodesAreAddedChangedAndRemoved) {
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  node({Kind::kApply, node_json("n1", 3)});
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0 2=0/0");
  node({Kind::kDelete, node_json("n1", 3)});
  EXPECT_EQ(used_text(ledger, "n1"), "no node");
  EXPECT_THAT(problems, IsEmpty());
}

// After `kubectl delete node`, kubelet creates it again, with the capacity and nothing else.
TEST_F(ConsumersTest, ANodeThatHadTheAnnotationHasNoCardsByItsCapacity) {
  const std::string annotated =
      R"({"metadata":{"name":"n3","annotations":{"vke.volcengine.com/mgpu-cards":)"
      R"("{\"version\":1,\"cards\":[{\"index\":7,\"uuid\":\"GPU-7\",\"model\":\"L4\",)"
      R"(\"memoryMiB\":1000,\"health\":\"Healthy\"}]}"}},"status":{"capacity":{)"
      R"("vke.volcengine.com/mgpu-core":"100","vke.volcengine.com/mgpu-memory":"1000"}}})";
  node({Kind::kApply, node_json("n3", 1)});
  EXPECT_EQ(used_text(ledger, "n3"), "0=0/0");
  node({Kind::kApply, annotated});
  EXPECT_EQ(used_text(ledger, "n3"), "7=0/0");
  node({Kind::kDelete, annotated});
  node({Kind::kApply, node_json("n3", 1)});
  EXPECT_EQ(used_text(ledger, "n3"), "");
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n3", 1)});
  node({Kind::kRelistEnd, ""});
  EXPECT_EQ(used_text(ledger, "n3"), "");
  node({Kind::kApply, annotated});
  EXPECT_EQ(used_text(ledger, "n3"), "7=0/0");
}

TEST_F(ConsumersTest, RelistOfNodesIsAppliedOnceItIsComplete) {
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n3", 1)});
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n1"), NodeName("n2")));
  node({Kind::kRelistEnd, ""});
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n3")));
}

TEST_F(ConsumersTest, RestartedRelistDropsItsFirstPart) {
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n3", 1)});
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n4", 1)});
  node({Kind::kRelistEnd, ""});
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n4")));
}

TEST_F(ConsumersTest, NodeWhoseCardsCannotBeReadIsReportedAndHasNone) {
  node({Kind::kApply,
        R"({"metadata":{"name":"n1","annotations":{"vke.volcengine.com/mgpu-cards":"["}}})"});
  EXPECT_THAT(problems, Contains(HasSubstr("node n1: ")));
  EXPECT_EQ(used_text(ledger, "n1"), "");
}

TEST_F(ConsumersTest, NodeThatCannotBeReadIsReportedAndUnchanged) {
  const std::string unreadable[] = {"", "{", R"({"metadata":7})", R"({"metadata":{}})",
                                    std::string(200'000, '[')};
  for (const std::string& text : unreadable) {
    node({Kind::kApply, text});
    node({Kind::kDelete, text});
  }
  EXPECT_EQ(problems.size(), 10u);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ConsumersTest, RelistWithAnUnreadableNodeRemovesNone) {
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n2", 3)});
  node({Kind::kRelistObject, "{"});
  node({Kind::kRelistEnd, ""});
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(used_text(ledger, "n2"), "0=0/0 1=0/0 2=0/0");
  node({Kind::kRelistBegin, ""});
  node({Kind::kRelistObject, node_json("n2", 3)});
  node({Kind::kRelistEnd, ""});
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n2")));
}

// --- pods ----------------------------------------------------------------------------------------

TEST_F(ConsumersTest, BoundPodsAreAddedAndRemoved) {
  pod(Kind::kApply, {.uid = "a"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  pod(Kind::kApply, {.uid = "a", .cards = "1"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0") << "it keeps its card";
  pod(Kind::kDelete, {.uid = "a", .cards = "1"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ConsumersTest, PodsThatNoLongerWaitAreReported) {
  pod(Kind::kApply, {.uid = "pending", .node = ""});
  pod(Kind::kApply, {.uid = "bound"});
  pod(Kind::kApply, {.uid = "finished", .node = "", .phase = "Failed"});
  pod(Kind::kDelete, {.uid = "gone", .node = ""});
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "listed"});
  pod(Kind::kRelistEnd);
  EXPECT_THAT(settled, ElementsAre("bound", "finished", "gone", "listed"));
}

TEST_F(ConsumersTest, PodThatFinishedReleasesItsShare) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    pod(Kind::kApply, {.uid = "a"});
    pod(Kind::kApply, {.uid = "a", .phase = phase});
    EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0") << phase;
  }
}

TEST_F(ConsumersTest, TerminatingPodHoldsItsShare) {
  std::string text = PodText{.uid = "a"}.json();
  text.replace(text.find(R"("uid")"), 0, R"("deletionTimestamp":"2026-11-21T08:00:00Z",)");
  pod(kube::WatchEvent{Kind::kApply, text});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(ConsumersTest, PodSeenUnboundDoesNotUndoABindInProgress) {
  assume_id(ledger, "a", "n1", "30/300");
  pod(Kind::kApply, {.uid = "a", .node = "", .phase = "Pending"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  pod(Kind::kDelete, {.uid = "a", .node = "", .phase = "Pending"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(ConsumersTest, PodThatRequestsNoCardsHasNoClaim) {
  pod(kube::WatchEvent{Kind::kApply,
                       R"({"metadata":{"name":"a","namespace":"default","uid":"a"},)"
                       R"("spec":{"nodeName":"n1","containers":[{"name":"main"}]}})"});
  EXPECT_EQ(ledger.reader().counts().bound, 0u);
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(ConsumersTest, PodWithAnUnreadableAnnotationCountsOnEachCard) {
  pod(Kind::kApply, {.uid = "a", .cards = "none"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=30/300");
  pod(Kind::kApply, {.uid = "b", .node = "n2", .core = "150"});
  EXPECT_EQ(used_text(ledger, "n2"), "0=100/150");
  EXPECT_EQ(ledger.reader().counts().drifting, 2u);
}

TEST_F(ConsumersTest, DriftIsReportedByEventsAndRelists) {
  pod(Kind::kApply, {.uid = "a"});
  pod(Kind::kApply, {.uid = "a", .cards = "1"});
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "a", .cards = "0"});
  pod(Kind::kRelistObject, {.uid = "b", .cards = "none"});
  pod(Kind::kRelistEnd);
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "a", .cards = "1"});
  pod(kube::WatchEvent{Kind::kRelistObject, "{"});
  pod(Kind::kRelistEnd);
  EXPECT_THAT(drifts, ElementsAre("a ChangedAnnotations", "a none", "b BindingWithoutCards",
                                  "a ChangedAnnotations"));
}

TEST_F(ConsumersTest, RelistOfPodsIsAppliedOnceItIsComplete) {
  pod(Kind::kApply, {.uid = "a"});
  assume_id(ledger, "b", "n2", "30/300");
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "c", .cards = "1"});
  pod(Kind::kRelistObject, {.uid = "d", .cards = "1", .phase = "Failed"});
  pod(Kind::kRelistObject, {.uid = "e", .node = "", .cards = "1"});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  pod(Kind::kRelistEnd);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
  EXPECT_EQ(used_text(ledger, "n2"), "0=30/300");
}

TEST_F(ConsumersTest, PodThatCannotBeReadIsReportedAndUnchanged) {
  pod(Kind::kApply, {.uid = "a"});
  for (const char* text : {"", "[", R"({"metadata":{"name":"a","namespace":"default"}})"}) {
    pod(kube::WatchEvent{Kind::kApply, text});
    pod(kube::WatchEvent{Kind::kDelete, text});
  }
  EXPECT_EQ(problems.size(), 6u);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(ConsumersTest, RelistWithAnUnreadablePodRemovesNone) {
  pod(Kind::kApply, {.uid = "a"});
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "b", .cards = "1"});
  pod(kube::WatchEvent{Kind::kRelistObject, "{"});
  pod(Kind::kRelistEnd);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=30/300");
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "b", .cards = "1"});
  pod(Kind::kRelistEnd);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
}

// A deleted pod is read like any other.
TEST_F(ConsumersTest, PodsOfTheLargestQuantitiesAreCountedAndRemoved) {
  std::string containers;
  for (int i = 0; i < 200; ++i) {
    containers += std::string(i == 0 ? "" : ",") + R"({"name":"c)" + std::to_string(i) +
                  R"(","resources":{"requests":{"cpu":"1P","memory":"4E"}}})";
  }
  const auto event = [&](Kind kind, int number) {
    const std::string uid = std::to_string(number);
    pod(kube::WatchEvent{kind, R"({"metadata":{"name":"p","uid":")" + uid +
                                   R"("},"spec":{"nodeName":"n1","containers":[)" + containers +
                                   R"(]},"status":{"phase":"Running"}})"});
  };
  for (int i = 0; i < 300; ++i) event(Kind::kApply, i);
  for (int i = 0; i < 300; ++i) event(Kind::kDelete, i);
  EXPECT_THAT(problems, IsEmpty());
  ledger.reader().read(
      Instant{}, [](const View& view) { EXPECT_TRUE(view.find("n1")->resources_used.zero()); });
}

TEST_F(ConsumersTest, RunningPodsAreReportedWithTheirRequest) {
  pod(Kind::kApply, {.uid = "a"});
  pod(Kind::kApply, {.uid = "rejected", .core = "150"});
  pod(Kind::kApply, {.uid = "waits", .node = ""});
  pod(Kind::kApply, {.uid = "bound by anyone", .phase = "Pending"});
  pod(Kind::kApply, {.uid = "done", .phase = "Succeeded"});
  pod(kube::WatchEvent{Kind::kApply,
                       R"({"metadata":{"name":"n","uid":"non-gpu"},"spec":{"nodeName":"n1",)"
                       R"("containers":[{"name":"main"}]},"status":{"phase":"Running"}})"});
  pod(Kind::kDelete, {.uid = "a"});
  pod(Kind::kRelistBegin);
  pod(Kind::kRelistObject, {.uid = "listed"});
  pod(Kind::kRelistObject, {.uid = "listed-done", .phase = "Failed"});
  pod(Kind::kRelistEnd);
  EXPECT_THAT(running, ElementsAre("default/a 1", "/non-gpu 0", "default/a 1", "default/listed 1"));
}

}  // namespace
}  // namespace mgpu::extender
