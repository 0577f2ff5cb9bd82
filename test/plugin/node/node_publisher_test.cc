#include "plugin/node/node_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "common/base/asio_executor.h"
#include "common/contract/limits.h"
#include "common/kube/limits.h"
#include "plugin/node/limits.h"
#include "plugin/node/node_difference.h"
#include "test/support/kube_objects.h"
#include "test/support/node_server.h"

namespace mgpu::plugin {
namespace {

using test::Fault;
using test::NodeServer;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = NodeServer::Json;

constexpr char kNode[] = "/api/v1/nodes/n1";
constexpr char kStatus[] = "/api/v1/nodes/n1/status";
constexpr char kCards[] = "vke.volcengine.com/mgpu-cards";
constexpr char kMemory[] = "vke.volcengine.com/mgpu-memory";

const Contract& contract() {
  static const Contract made = *Contract::for_domain(kDefaultResourceDomain);
  return made;
}

NodeReport four_cards() {
  NodeReport report;
  for (int i = 0; i < 4; ++i) {
    report.cards.push_back({CardIndex(i), CardUuid("GPU-" + std::to_string(i)), "V100", MiB(32'510),
                            std::string(kHealthy), ""});
  }
  report.memory = 130'040;
  report.ready = NodeReport::Ready::kTrue;
  report.reason = "CardsReady";
  report.message = "4 of 4 cards are offered";
  return report;
}

NodeReport with_an_unhealthy_card() {
  NodeReport report = four_cards();
  report.cards[2].health = "XID 79";
  report.memory = 97'530;
  report.message = "3 of 4 cards are offered";
  return report;
}

class NodePublisherTest : public ::testing::Test {
 public:
  NodePublisherTest() {
    server_.create_node();
    start();
  }
  void start() {
    publisher_.emplace(
        NodeName("n1"), contract(), server_.api(),
        [this](const std::string& problem) { problems_.push_back(problem); },
        [this] { return "2026-01-02T00:00:" + std::to_string(10 + clock_++) + "Z"; });
    server_.run();
  }
  void publish(const NodeReport& report) {
    publisher_->publish(report);
    server_.run();
  }
  std::string cards() {
    const Json node = server_.node();
    return node.value(Json::json_pointer("/metadata/annotations"), Json::object())
        .value(kCards, "");
  }
  std::string capacity() {
    const Json node = server_.node();
    return node.value(Json::json_pointer("/status/capacity"), Json::object()).value(kMemory, "");
  }
  void expect_on_node(const NodeReport& report) {
    EXPECT_EQ(cards(), format_node_cards(report.cards));
    EXPECT_EQ(server_.condition("MGPUReady").value("message", ""), report.message);
    EXPECT_TRUE(publisher_->settled());
  }
  void fail_writes(int status, std::optional<Duration> retry_after = std::nullopt) {
    server_.fault = [status, retry_after](const kube::Request&) {
      return Fault{.status = status,
                   .body = R"({"kind":"Status","reason":"R","message":"m"})",
                   .retry_after = retry_after};
    };
  }

  int clock_ = 0;
  NodeServer server_;
  std::vector<std::string> problems_;
  std::optional<NodePublisher> publisher_;
};

TEST_F(NodePublisherTest, ReadsTheLabelThatReleasesTheDriver) {
  EXPECT_FALSE(publisher_->release_requested());
  for (const char* value : {"true", "false", "yes"}) {
    server_.merge(kNode, {{"metadata", {{"labels", {{contract().release, value}}}}}});
    server_.run();
    EXPECT_EQ(publisher_->release_requested(), std::string(value) == "true") << value;
  }
}

TEST_F(NodePublisherTest, WritesCardsConditionAndMemory) {
  EXPECT_FALSE(publisher_->settled());
  publish(four_cards());
  expect_on_node(four_cards());
  EXPECT_EQ(capacity(), "130040");
  const Json condition = server_.condition("MGPUReady");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "CardsReady");
  EXPECT_EQ(condition["lastTransitionTime"], condition["lastHeartbeatTime"]);
  EXPECT_THAT(server_.writes,
              ElementsAre("PATCH /api/v1/nodes/n1", "PATCH /api/v1/nodes/n1/status"));
  EXPECT_THAT(problems_, IsEmpty());
}

// Four cards need 96 cores.
struct TaintTest : NodePublisherTest {
  TaintTest() { set_cpu("96"); }
  void set_cpu(const char* amount) {
    server_.merge(kStatus, {{"status", {{"allocatable", {{"cpu", amount}}}}}});
    server_.run();
  }
  void set_taints(const Json& taints) {
    server_.merge(kNode, {{"spec", {{"taints", taints}}}});
    server_.run();
  }
  void publish_use(std::int64_t milli_cpu, int core) {
    NodeReport report = four_cards();
    report.taint = true;
    report.use = {milli_cpu, Percent(core)};
    publish(report);
    server_.executor().advance(kTaintInterval);
    publish(report);
  }
  Json taints() { return server_.node()["spec"].value("taints", Json::array()); }
  const Json ours = {{"key", "vke.volcengine.com/mgpu-needs-cpu"}, {"effect", "PreferNoSchedule"}};
};

TEST_F(TaintTest, TaintsTheNodeWhileItsFreeCardsNeedItsFreeCpu) {
  publish_use(0, 0);
  EXPECT_EQ(taints(), Json::array());
  publish_use(1, 0);
  EXPECT_EQ(taints(), Json::array({ours}));
  EXPECT_TRUE(publisher_->settled());
  publish_use(1, 100);
  EXPECT_EQ(taints(), Json::array()) << "three cards need 72 cores";
  publish_use(96'000, 400);
  EXPECT_EQ(taints(), Json::array()) << "no card is free";
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(TaintTest, UnhealthyCardsNeedNoCpu) {
  NodeReport report = with_an_unhealthy_card();
  report.taint = true;
  report.use = {20'000, Percent(0)};
  publish(report);
  EXPECT_EQ(taints(), Json::array());
}

TEST_F(TaintTest, KeepsTheTaintsOfOthers) {
  const Json theirs = {{"key", "dedicated"},
                       {"value", "gpu"},
                       {"effect", "NoExecute"},
                       {"timeAdded", "2026-01-01T00:00:00Z"}};
  const Json like_ours = {{"key", ours["key"]}, {"effect", "NoSchedule"}};
  set_taints({theirs, like_ours});
  publish_use(1, 0);
  EXPECT_EQ(taints(), Json::array({theirs, like_ours, ours}));
  publish_use(0, 0);
  EXPECT_EQ(taints(), Json::array({theirs, like_ours}));
}

TEST_F(TaintTest, RemovesItsTaintWhereItIsToHaveNone) {
  publish_use(1, 0);
  publish(four_cards());
  EXPECT_EQ(taints(), Json::array());
}

TEST_F(TaintTest, WritesTheTaintAgainThatAnotherWriterRemoved) {
  publish_use(1, 0);
  set_taints(Json::array());
  EXPECT_EQ(taints(), Json::array({ours}));
}

TEST_F(TaintTest, KeepsTheTaintWhileThePodsAreNotKnown) {
  publish_use(1, 0);
  NodeReport report = four_cards();
  report.taint = true;
  publish(report);
  EXPECT_EQ(taints(), Json::array({ours}));
}

TEST_F(TaintTest, ChangesTheTaintOnceInAnInterval) {
  NodeReport report = four_cards();
  report.taint = true;
  report.use = {1, Percent(0)};
  publish(report);
  EXPECT_EQ(taints(), Json::array({ours}));
  report.use = {0, Percent(0)};
  publish(report);
  EXPECT_EQ(taints(), Json::array({ours}));
  server_.executor().advance(kTaintInterval);
  publish(report);
  EXPECT_EQ(taints(), Json::array());
}

TEST_F(TaintTest, ATaintThatIsRefusedDoesNotDelayTheCards) {
  publish(four_cards());
  fail_writes(403);
  publish_use(1, 0);
  EXPECT_THAT(problems_, Contains(HasSubstr("taint node n1")));
  server_.fault = nullptr;
  NodeReport report = with_an_unhealthy_card();
  report.taint = true;
  publish(report);
  EXPECT_EQ(cards(), format_node_cards(report.cards));
}

TEST_F(TaintTest, FollowsTheCpuOfTheNode) {
  publish_use(1, 0);
  set_cpu("128");
  EXPECT_EQ(taints(), Json::array());
}

TEST_F(NodePublisherTest, WritesNothingIfTheNodeMatches) {
  publish(four_cards());
  server_.writes.clear();
  publish(four_cards());
  EXPECT_TRUE(publisher_->settled());
  start();
  publish(four_cards());
  EXPECT_TRUE(publisher_->settled());
  EXPECT_THAT(server_.writes, IsEmpty());
}

TEST_F(NodePublisherTest, WritesOnlyWhatDiffers) {
  publish(four_cards());
  server_.writes.clear();
  NodeReport report = four_cards();
  report.cards[0].model = "V100S";
  publish(report);
  EXPECT_THAT(server_.writes, ElementsAre("PATCH /api/v1/nodes/n1"));
  server_.writes.clear();
  report.message = "other words";
  publish(report);
  EXPECT_THAT(server_.writes, ElementsAre("PATCH /api/v1/nodes/n1/status"));
  expect_on_node(report);
}

TEST_F(NodePublisherTest, KeepsLastTransitionTimeWhileTheStatusIsTheSame) {
  publish(four_cards());
  const Json before = server_.condition("MGPUReady");
  publish(with_an_unhealthy_card());
  const Json same = server_.condition("MGPUReady");
  EXPECT_EQ(same["lastTransitionTime"], before["lastTransitionTime"]);
  EXPECT_NE(same["lastHeartbeatTime"], before["lastHeartbeatTime"]);
  NodeReport none = with_an_unhealthy_card();
  none.ready = NodeReport::Ready::kFalse;
  publish(none);
  const Json changed = server_.condition("MGPUReady");
  EXPECT_EQ(changed["status"], "False");
  EXPECT_NE(changed["lastTransitionTime"], before["lastTransitionTime"]);
}

TEST_F(NodePublisherTest, DoesNotWriteMemoryIfKubeletPublishesIt) {
  server_.merge(kStatus, {{"status", {{"capacity", {{kMemory, "7"}}}}}});
  NodeReport report = four_cards();
  report.memory.reset();
  publish(report);
  EXPECT_TRUE(publisher_->settled());
  EXPECT_EQ(capacity(), "7");
}

TEST_F(NodePublisherTest, ComparesQuantitiesByValue) {
  NodeReport report = four_cards();
  report.memory = 8'000;
  publish(report);
  EXPECT_EQ(capacity(), "8k");
  EXPECT_TRUE(publisher_->settled());
  server_.writes.clear();
  publish(report);
  EXPECT_THAT(server_.writes, IsEmpty());
}

TEST_F(NodePublisherTest, WritesBothConditions) {
  NodeReport report = four_cards();
  report.exclusive = {"MGPUCardsExclusive", "False", "DefaultRuntime", std::string(2'000, 'x')};
  publish(report);
  expect_on_node(report);
  EXPECT_EQ(server_.condition("MGPUCardsExclusive")["status"], "False");
  EXPECT_EQ(server_.condition("MGPUCardsExclusive")["message"], std::string(1'024, 'x'));
  server_.writes.clear();
  report.exclusive = {"MGPUCardsExclusive", "True", "OnlyMGPU", "none"};
  publish(report);
  EXPECT_EQ(server_.condition("MGPUCardsExclusive")["status"], "True");
  EXPECT_THAT(server_.writes, ElementsAre("PATCH /api/v1/nodes/n1/status"));
  report.exclusive.reset();
  publish(report);
  EXPECT_EQ(server_.condition("MGPUCardsExclusive")["status"], "True") << "it is not known anew";
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(NodePublisherTest, KeepsOtherConditions) {
  const Json kubelets = {{"type", "Ready"}, {"status", "True"}};
  server_.merge(kStatus, {{"status", {{"conditions", Json::array({kubelets})}}}});
  publish(four_cards());
  EXPECT_EQ(server_.condition("Ready"), kubelets);
  EXPECT_EQ(server_.condition("MGPUReady")["status"], "True");
}

TEST_F(NodePublisherTest, CorrectsAChangeByAnotherWriter) {
  publish(four_cards());
  server_.merge(kNode, {{"metadata", {{"annotations", {{kCards, "[]"}}}}}});
  server_.run();
  expect_on_node(four_cards());
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("another writer")));
}

TEST_F(NodePublisherTest, CorrectsEachField) {
  publish(four_cards());
  const std::pair<const char*, Json> changes[] = {
      {kNode, {{"metadata", {{"annotations", {{kCards, nullptr}}}}}}},
      {kStatus, {{"status", {{"capacity", {{kMemory, "0"}}}}}}},
      {kStatus, {{"status", {{"capacity", {{kMemory, nullptr}}}}}}},
      {kStatus, {{"status", {{"conditions", nullptr}}}}},
  };
  for (const auto& [path, patch] : changes) {
    server_.merge(path, patch);
    server_.run();
    server_.executor().advance(kube::kBackoffMax);
    expect_on_node(four_cards());
    EXPECT_EQ(capacity(), "130040");
  }
}

TEST_F(NodePublisherTest, CorrectsRepeatedChangesWithGrowingDelays) {
  publish(four_cards());
  server_.writes.clear();
  // Another writer changes the annotation every second for five minutes.
  for (int second = 0; second < 300; ++second) {
    server_.merge(kNode, {{"metadata", {{"annotations", {{kCards, "[]"}}}}}});
    server_.executor().advance(Duration(1'000));
  }
  EXPECT_LT(server_.writes.size(), 20u);
  EXPECT_GT(server_.writes.size(), 5u);
  server_.executor().advance(kube::kBackoffMax);
  expect_on_node(four_cards());
}

TEST_F(NodePublisherTest, WaitsForANodeThatDoesNotExist) {
  server_.delete_node();
  server_.run();
  publish(four_cards());
  EXPECT_TRUE(publisher_->node_missing());
  EXPECT_FALSE(publisher_->settled());
  server_.executor().advance(Duration(600'000));
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("node n1 does not exist")));
  EXPECT_THAT(server_.writes, IsEmpty());
  server_.create_node();
  server_.run();
  EXPECT_FALSE(publisher_->node_missing());
  expect_on_node(four_cards());
  EXPECT_EQ(capacity(), "130040");
}

TEST_F(NodePublisherTest, StartsWithoutANodeAndFindsItLater) {
  server_.delete_node();
  start();
  EXPECT_TRUE(publisher_->node_missing());
  publish(four_cards());
  server_.create_node();
  server_.run();
  expect_on_node(four_cards());
}

TEST_F(NodePublisherTest, DoesNotTreatAnUnreadableNodeAsMissing) {
  server_.merge("/api/v1/nodes/n1", {{"spec", {{"unschedulable", "yes"}}}});
  server_.run();
  start();
  publish(four_cards());
  EXPECT_FALSE(publisher_->node_missing());
  EXPECT_FALSE(publisher_->settled());
  EXPECT_THAT(problems_, Each(HasSubstr("node n1: n1 cannot be read: spec.unschedulable must be")));
  EXPECT_THAT(problems_, SizeIs(2));
  EXPECT_EQ(publisher_->unreadable(), 1U);
  server_.merge("/api/v1/nodes/n1", {{"spec", {{"unschedulable", nullptr}}}});
  server_.run();
  expect_on_node(four_cards());
}

TEST_F(NodePublisherTest, WritesAgainAfterTheNodeIsRecreated) {
  publish(four_cards());
  server_.delete_node();
  server_.create_node();
  server_.run();
  expect_on_node(four_cards());
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("does not exist")));
}

TEST_F(NodePublisherTest, ReportsAProblemOnceAndRetriesWithGrowingDelays) {
  fail_writes(403);
  publish(four_cards());
  EXPECT_THAT(server_.writes, SizeIs(1));
  server_.executor().advance(Duration(120'000));
  EXPECT_GT(server_.writes.size(), 5u);
  EXPECT_LT(server_.writes.size(), 14u);
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("node n1: HTTP 403 R: m")));
  EXPECT_FALSE(publisher_->settled());
  server_.fault = nullptr;
  server_.executor().advance(kube::kBackoffMax);
  expect_on_node(four_cards());
  fail_writes(403);
  publish(with_an_unhealthy_card());
  EXPECT_THAT(problems_, SizeIs(2));
}

TEST_F(NodePublisherTest, HonoursRetryAfter) {
  fail_writes(429, Duration(20'000));
  publish(four_cards());
  server_.executor().advance(Duration(19'999));
  EXPECT_THAT(server_.writes, SizeIs(1));
  server_.executor().advance(Duration(1));
  EXPECT_THAT(server_.writes, SizeIs(2));
}

TEST_F(NodePublisherTest, HandlesALostResponse) {
  bool lost = false;
  server_.fault = [&](const kube::Request&) -> std::optional<Fault> {
    if (std::exchange(lost, true)) return std::nullopt;
    return Fault{.kind = Fault::Kind::kLoseAnswer};
  };
  publish(four_cards());
  server_.executor().advance(kube::kBackoffMax);
  expect_on_node(four_cards());
  EXPECT_THAT(server_.writes, SizeIs(2)) << "the first write was done";
}

TEST_F(NodePublisherTest, BacksOffIfAcceptedWritesDoNotPersist) {
  // As an admission webhook that removes the annotation.
  const std::string bare = server_.node().dump();
  server_.fault = [&](const kube::Request&) { return Fault{.status = 200, .body = bare}; };
  publish(four_cards());
  server_.executor().advance(Duration(120'000));
  EXPECT_LT(server_.writes.size(), 15u);
  EXPECT_THAT(problems_,
              ElementsAre(HasSubstr("writes succeed, but the Node object does not keep them")));
  server_.fault = nullptr;
  server_.executor().advance(2 * kube::kBackoffMax);
  expect_on_node(four_cards());
}

TEST_F(NodePublisherTest, RejectsAResponseThatIsNoNode) {
  for (const char* const body : {"", "<html>", "[]", R"({"status":{"conditions":5}})"}) {
    server_.fault = [&](const kube::Request&) { return Fault{.status = 200, .body = body}; };
    NodeReport report = four_cards();
    report.cards[0].model = std::string("another for ") + body;
    publish(report);
    EXPECT_FALSE(publisher_->settled());
    server_.fault = nullptr;
    server_.executor().advance(kube::kBackoffMax);
    expect_on_node(report);
  }
}

TEST_F(NodePublisherTest, ANewerReportReplacesTheOneInFlight) {
  publisher_->publish(four_cards());
  publisher_->publish(with_an_unhealthy_card());
  server_.run();
  expect_on_node(with_an_unhealthy_card());
  EXPECT_EQ(capacity(), "97530");
}

TEST_F(NodePublisherTest, AReportIsNotSettledBeforeItIsWritten) {
  publish(four_cards());
  EXPECT_TRUE(publisher_->settled());
  publisher_->publish(four_cards());
  EXPECT_FALSE(publisher_->settled());
  server_.run();
  EXPECT_TRUE(publisher_->settled());
}

TEST_F(NodePublisherTest, ALaggingWatchDoesNotRevertAWrite) {
  publish(four_cards());
  // Responses arrive at once, watch events and lists only after a reconnect.
  server_.api().drop_watches();
  publish(with_an_unhealthy_card());
  expect_on_node(with_an_unhealthy_card());
  server_.writes.clear();
  server_.executor().advance(Duration(600'000));
  expect_on_node(with_an_unhealthy_card());
  EXPECT_THAT(server_.writes, IsEmpty());
}

TEST_F(NodePublisherTest, ConvergesThroughFaultsOfEveryKind) {
  int request_number = 0;
  server_.fault = [&](const kube::Request&) -> std::optional<Fault> {
    switch (++request_number % 6) {
      case 0:
        return Fault{.kind = Fault::Kind::kRefuse};
      case 1:
        return Fault{.kind = Fault::Kind::kLoseAnswer};
      case 2:
        return Fault{.kind = Fault::Kind::kDelay, .delay = Duration(7'000)};
      case 3:
        return Fault{.status = 500, .body = std::string(100'000, '[')};
      default:
        return std::nullopt;
    }
  };
  for (int round = 0; round < 60; ++round) {
    publisher_->publish(round % 2 == 0 ? four_cards() : with_an_unhealthy_card());
    if (round % 5 == 0) server_.api().drop_watches();
    if (round % 7 == 0) server_.api().compact();
    if (round % 11 == 0) server_.delete_node();
    server_.executor().advance(Duration(round * 150));
    if (round % 11 == 0) server_.create_node();
    server_.executor().advance(Duration(round * 150));
  }
  server_.executor().advance(Duration(300'000));
  expect_on_node(with_an_unhealthy_card());
  EXPECT_EQ(capacity(), "97530");
}

TEST_F(NodePublisherTest, ReportsNothingAfterItsDestruction) {
  fail_writes(403);
  publish(four_cards());
  publisher_.reset();
  const auto problems = problems_.size();
  server_.executor().advance(Duration(600'000));
  EXPECT_EQ(problems_.size(), problems);
  EXPECT_THAT(server_.writes, SizeIs(1));
}

TEST_F(NodePublisherTest, DoesNotWriteAnAnnotationOverItsLimit) {
  NodeReport report = four_cards();
  report.cards[0].model = std::string(kCardsAnnotationBytesMax, 'x');
  publish(report);
  EXPECT_EQ(cards(), "");
  EXPECT_FALSE(publisher_->settled());
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("the limit is 65536")));
  EXPECT_EQ(server_.condition("MGPUReady")["status"], "True");
}

TEST(NodePublisher, AcceptsReportsFromAnyThread) {
  AsioExecutor executor;
  kube::MemoryApiServer api(executor, {});
  kube::Request create;
  create.method = kube::Method::kPost;
  create.target = "/api/v1/nodes";
  create.content_type = "application/json";
  create.body = test::node_json("n1");
  ASSERT_TRUE(api.call(create).ok());
  {
    NodePublisher publisher(NodeName("n1"), contract(), api, [](const std::string&) {});
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 50; ++n)
          publisher.publish(n % 2 == 0 ? four_cards() : with_an_unhealthy_card());
      });
    }
    threads.clear();
    publisher.publish(four_cards());
    while (!publisher.settled()) std::this_thread::yield();
    EXPECT_FALSE(publisher.node_missing());
    executor.stop();
  }
  EXPECT_THAT(api.call(kube::get_node(NodeName("n1"))).body, HasSubstr("4 of 4 cards"));
}

}  // namespace
}  // namespace mgpu::plugin
