#include "extender/cluster_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "test/support/ledger_text.h"
#include "test/support/node_server.h"

namespace mgpu::extender {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using EventJson = test::NodeServer::Json;

class ClusterEventsTest : public testing::Test {
 protected:
  ClusterEventsTest() {
    EXPECT_TRUE(set_log_level("off"));
    ledger.apply_node(test::facts_of("n1: 0[100/1000] 1[100/1000]"));
    start();
  }
  void start() {
    events.emplace(
        ledger.reader(), contract, naming, server.api(), "extender-1", [this] { return decides; },
        [this] { return unsettled; });
    events->start();
  }
  void poll(int times = 2) {
    for (int i = 0; i < times; ++i) {
      server.executor().advance(kClusterEventsInterval);
      server.run();
    }
  }
  // Two pods with 60 % each of card 0.
  void overfill() {
    for (const char* pod : {"a", "b"}) {
      ledger.apply_pod(test::bound_claim(pod, "n1", "60/100", "0"));
    }
  }
  std::vector<EventJson> pod_events() { return server.events("default-of-pods"); }
  std::vector<EventJson> node_events() { return server.events("default"); }

  test::NodeServer server;
  Ledger ledger;
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  NamingPods naming;
  bool decides = true;
  std::vector<UnsettledPod> unsettled;
  std::optional<ClusterEvents> events;
};

// A claim that does not agree with its annotations.
Claim edited_claim(const std::string& uid, const char* detail = "they were edited") {
  Claim claim = test::bound_claim(uid, "n1", "1/1", "0");
  claim.pod.name_space = "default-of-pods";
  claim.drift = DriftKind::kChangedAnnotations;
  claim.drift_detail = detail;
  return claim;
}

TEST_F(ClusterEventsTest, WritesTheDriftOfAPod) {
  ledger.apply_pod(edited_claim("a"));
  poll();
  ASSERT_THAT(pod_events(), SizeIs(1));
  const EventJson event = pod_events()[0];
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "MGPUDrift");
  EXPECT_EQ(event["source"], EventJson({{"component", "mgpu-extender"}, {"host", "extender-1"}}));
  EXPECT_EQ(event["involvedObject"]["kind"], "Pod");
  EXPECT_EQ(event["involvedObject"]["uid"], "a");
  EXPECT_THAT(event["message"].get<std::string>(),
              AllOf(HasSubstr("ChangedAnnotations"), HasSubstr("they were edited"),
                    HasSubstr("delete the pod")));
}

TEST_F(ClusterEventsTest, WritesThatAPodCannotBeChanged) {
  unsettled = {{{"default-of-pods", "a"}, PodUid("a"), "a policy refuses it"}};
  poll(5);
  ASSERT_THAT(pod_events(), SizeIs(1));
  EXPECT_EQ(pod_events()[0]["reason"], "MGPUCannotChangePod");
  EXPECT_EQ(pod_events()[0]["message"],
            "mgpu-extender cannot patch pods/status of this pod (a policy refuses it), so an "
            "earlier bind of it may still succeed; the pod can be scheduled nevertheless, but an "
            "administrator should let the extender's service account patch pods/status");
}

TEST_F(ClusterEventsTest, SaysWhatToDoAboutAPodHoweverLongTheProblemIs) {
  unsettled = {{{"default-of-pods", "a"}, PodUid("a"), std::string(2'000, 'x')}};
  poll(5);
  EXPECT_THAT(pod_events().at(0)["message"].get<std::string>(),
              testing::EndsWith("patch pods/status"));
}

TEST_F(ClusterEventsTest, WritesAFindingOnce) {
  ledger.apply_pod(edited_claim("a"));
  poll(10);
  EXPECT_EQ(pod_events().at(0)["count"], 1);
  EXPECT_THAT(server.writes, SizeIs(1));
}

TEST_F(ClusterEventsTest, AnotherEditIsNoOtherFinding) {
  ledger.apply_pod(edited_claim("a", "they were edited"));
  poll();
  ledger.apply_pod(edited_claim("a", "they were edited again"));
  poll();
  EXPECT_THAT(server.writes, SizeIs(1));
}

TEST_F(ClusterEventsTest, WritesADriftThatReturns) {
  ledger.apply_pod(edited_claim("a"));
  poll();
  ledger.remove_pod(PodUid("a"));
  poll();
  ledger.apply_pod(edited_claim("a"));
  poll();
  EXPECT_EQ(pod_events().at(0)["count"], 2);
}

TEST_F(ClusterEventsTest, WritesTheOverfullCardsOfANode) {
  overfill();
  poll();
  ASSERT_THAT(node_events(), SizeIs(1));
  const EventJson event = node_events()[0];
  EXPECT_EQ(event["reason"], "MGPUCardsOverfull");
  EXPECT_EQ(event["involvedObject"]["kind"], "Node");
  EXPECT_EQ(event["involvedObject"]["name"], "n1");
  EXPECT_THAT(event["message"].get<std::string>(),
              HasSubstr("card 0 has more in use than its capacity: pods default/a, default/b; "
                        "delete those that were bound without mgpu-extender or before the cards "
                        "of the node changed, else the one that was bound last"));
}

TEST_F(ClusterEventsTest, NamesAllOverfullCards) {
  for (const char* pod : {"a", "b"}) {
    ledger.apply_pod(test::bound_claim(pod, "n1", "wholex2", "0,1"));
  }
  poll();
  EXPECT_THAT(node_events().at(0)["message"].get<std::string>(),
              HasSubstr("cards 0,1 have more in use than their capacity"));
}

TEST_F(ClusterEventsTest, ACardThatIsOverfullForOnePollIsNotReported) {
  overfill();
  poll(1);
  ledger.remove_pod(PodUid("b"));
  poll();
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(ClusterEventsTest, WritesAnAnnotationThatCannotBeRead) {
  NodeFacts node = test::facts_of("n2:");
  node.problem = "annotation vke.volcengine.com/mgpu-cards: not JSON";
  ledger.apply_node(node);
  poll();
  node.problem = "annotation vke.volcengine.com/mgpu-cards: no cards";
  ledger.apply_node(node);
  poll();
  std::vector<std::string> written;
  for (const EventJson& event : node_events()) {
    written.push_back(event["reason"].get<std::string>() + " " +
                      event["message"].get<std::string>());
  }
  EXPECT_THAT(written,
              UnorderedElementsAre(
                  "MGPUBadNodeAnnotation annotation vke.volcengine.com/mgpu-cards: not JSON",
                  "MGPUBadNodeAnnotation annotation vke.volcengine.com/mgpu-cards: no cards"));
}

TEST_F(ClusterEventsTest, AProcessThatDoesNotDecideWritesNone) {
  decides = false;
  ledger.apply_pod(edited_claim("a"));
  overfill();
  poll(10);
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(ClusterEventsTest, OneThatBeginsToDecideWritesWhatItFinds) {
  decides = false;
  ledger.apply_pod(edited_claim("a"));
  poll(10);
  decides = true;
  poll();
  EXPECT_THAT(pod_events(), SizeIs(1));
}

TEST_F(ClusterEventsTest, WritesAFewAtATimeAndAllInTheEnd) {
  constexpr std::size_t kPods = 3 * kClusterEventsPerPoll;
  for (std::size_t i = 0; i < kPods; ++i) ledger.apply_pod(edited_claim("p" + std::to_string(i)));
  poll();
  EXPECT_THAT(server.writes, SizeIs(kClusterEventsPerPoll));
  poll();
  EXPECT_THAT(server.writes, SizeIs(kPods));
  poll(10);
  EXPECT_THAT(server.writes, SizeIs(kPods));
  EXPECT_EQ(events->dropped(), 0U);
}

TEST_F(ClusterEventsTest, CountsEventsThatCannotBeWritten) {
  server.fault = [](const kube::Request&) { return test::Fault{.status = 403}; };
  ledger.apply_pod(edited_claim("a"));
  poll(10);
  EXPECT_EQ(events->dropped(), 1U);
}

TEST_F(ClusterEventsTest, WritesAFindingOnceItCanBeWritten) {
  server.fault = [](const kube::Request&) { return test::Fault{.status = 403}; };
  ledger.apply_pod(edited_claim("a"));
  poll(10);
  server.fault = nullptr;
  poll(20);
  ASSERT_THAT(pod_events(), SizeIs(1));
  EXPECT_EQ(pod_events()[0]["count"], 1);
}

TEST_F(ClusterEventsTest, MayEndBetweenTwoPolls) {
  ledger.apply_pod(edited_claim("a"));
  poll(1);
  events.reset();
  poll();
  EXPECT_THAT(server.writes, IsEmpty());
}

BindablePod excluding(const std::string& uid, const std::string& model) {
  BindablePod pod{.ref = {"default-of-pods", uid}, .uid = PodUid(uid)};
  pod.request.request.selector.models_excluded = {model};
  return pod;
}

TEST_F(ClusterEventsTest, WritesThatAnExcludedModelIsNoCardOnce) {
  ledger.apply_node(test::facts_of("n2: 0[100/1000 model=NVIDIA-T4]"));
  naming.add(excluding("spelled", "T4-SHARED"));
  naming.add(excluding("misspelled", "T-4"));
  poll();
  ASSERT_THAT(pod_events(), SizeIs(1));
  const EventJson event = pod_events()[0];
  EXPECT_EQ(event["reason"], "MGPUUnknownCardName");
  EXPECT_EQ(event["involvedObject"]["name"], "misspelled");
  EXPECT_THAT(event["message"].get<std::string>(),
              HasSubstr("gpu-model-exclude names \"T-4\", and no card of the cluster"));
  poll();
  EXPECT_THAT(pod_events(), SizeIs(1));
}

TEST_F(ClusterEventsTest, ComparesTheNamesOfAFewPodsAtOnce) {
  ledger.apply_node(test::facts_of("n2: 0[100/1000 model=T4]"));
  for (std::size_t i = 0; i < kClusterEventsBoundMax + 5; ++i) naming.add(excluding("a", "X"));
  poll(1);
  EXPECT_EQ(pod_events().at(0)["count"], kClusterEventsPerPoll);
}

}  // namespace
}  // namespace mgpu::extender
