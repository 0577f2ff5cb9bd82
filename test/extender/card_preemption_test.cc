#include "extender/card_preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/kube/objects/object_json.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"
#include "test/support/node_server.h"

namespace mgpu::extender {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = test::NodeServer::Json;

const std::string kTeamPods = "/api/v1/namespaces/team/pods";

// A node with one card, of which the pod "victim" has 60 %, and the pending pod "p" of 70 %.
class CardPreemptionTest : public testing::Test {
 protected:
  CardPreemptionTest() {
    EXPECT_TRUE(set_log_level("off"));
    settings.contract = *Contract::for_domain(kDefaultResourceDomain);
    settings.policy = *find_policy("binpack");
    server.create_node();
    ledger.apply_node(test::facts_of("n1: 0[100/8000]"));
    create("p", "70", 9);
    create("victim", "60", 1);
    post(kTeamPods + "/victim/binding", test::binding_json("victim", "n1"));
    Claim claim = test::bound_claim(uid("victim").str(), "n1", "60/1000", "0");
    claim.pod = {"team", "victim"};
    claim.priority = 1;
    ledger.apply_pod(claim);
    preemption.emplace(
        context, server.api(), choosing, "extender-1",
        CardPreemption::Events{
            .decides = [this] { return decides; },
            .on_ended = [this](std::size_t victims) { ended.push_back(victims); },
            .on_problem = [this](const std::string& why) { problems.push_back(why); }});
    preemption->start();
    server.run();
    server.writes.clear();
  }
  void create(const std::string& name, const std::string& core, int priority) {
    Json pod = Json::parse(test::pod_json(name, {{"vke.volcengine.com/mgpu-core", core},
                                                 {"vke.volcengine.com/mgpu-memory", "1000"}}));
    pod["metadata"]["namespace"] = "team";
    pod["spec"]["priority"] = priority;
    post(kTeamPods, pod.dump());
  }
  void post(const std::string& target, const std::string& body) {
    const auto response = server.api().call({.method = kube::Method::kPost,
                                             .target = target,
                                             .body = body,
                                             .content_type = "application/json"});
    EXPECT_TRUE(response.ok()) << response.body;
    server.run();
  }
  Json read(const std::string& name) {
    return Json::parse(
        server.api().call({.method = kube::Method::kGet, .target = kTeamPods + "/" + name}).body);
  }
  PodUid uid(const std::string& name) {
    return PodUid(read(name)["metadata"]["uid"].get<std::string>());
  }
  kube::Pod pod(const std::string& name) { return *kube::read_pod(read(name).dump()); }
  void refuse(const std::string& name) {
    FilterReply reply;
    reply.outcome = FilterOutcome::kMayChange;
    reply.failed = {{"n1", "no card"}};
    preemption->on_filter(pod(name), reply);
  }
  void wait(Duration time) {
    for (Duration passed{}; passed < time; passed += kPreemptPollInterval) {
      server.executor().advance(kPreemptPollInterval);
      server.run();
      choosing.run_ready();
      server.run();
    }
  }
  std::vector<std::string> writes_of_pods() {
    std::vector<std::string> writes;
    for (const std::string& write : server.writes)
      if (write.find("/events") == write.npos) writes.push_back(write);
    return writes;
  }

  test::NodeServer server;
  test::ManualExecutor choosing{2};
  Ledger ledger;
  Settings settings;
  DisruptionBudgets budgets;
  CurrentPrices prices;
  const VerbContext context{settings, ledger, budgets, prices};
  bool decides = true;
  std::vector<std::size_t> ended;
  std::vector<std::string> problems;
  std::optional<CardPreemption> preemption;
};

TEST_F(CardPreemptionTest, EvictsAsKubeSchedulerDoes) {
  refuse("p");
  const PodUid preemptor = uid("p");
  wait(kPreemptAfter - kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty()) << "kube-scheduler may call preempt";
  wait(2 * kPreemptPollInterval);
  EXPECT_THAT(writes_of_pods(), ElementsAre("PATCH " + kTeamPods + "/p/status",
                                            "PATCH " + kTeamPods + "/victim/status",
                                            "DELETE " + kTeamPods + "/victim"));
  EXPECT_EQ(read("p")["status"]["nominatedNodeName"], "n1");
  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_TRUE(preemption->is_evicting(preemptor));
  std::vector<std::string> events;
  for (const Json& event : server.events("team"))
    events.push_back(event["reason"].get<std::string>() + " " +
                     event["involvedObject"]["name"].get<std::string>() + " " +
                     event["message"].get<std::string>());
  EXPECT_THAT(events, testing::UnorderedElementsAre(
                          AllOf(HasSubstr("MGPUPreempting p"), HasSubstr("1 pod of lower")),
                          "Preempted victim Preempted by pod " + preemptor.str() + " on node n1"));
}

TEST_F(CardPreemptionTest, EvictsNobodyTwiceForOnePod) {
  refuse("p");
  wait(4 * kPreemptPollInterval);
  server.writes.clear();
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, EvictsNobodyAfterKubeSchedulerHasChosenVictimsOrFilterPassesThePod) {
  refuse("p");
  preemption->on_preempted(uid("p"));
  wait(10 * kPreemptPollInterval);
  refuse("p");
  preemption->on_filter(pod("p"), FilterReply{});
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, OnlyTheProcessThatDecidesEvicts) {
  decides = false;
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, EvictsNobodyForAPodThatHasChanged) {
  refuse("p");
  server.executor().advance(2 * kPreemptAfter);
  server.run();  // It is read.
  server.merge(kTeamPods + "/p", {{"metadata", {{"labels", {{"changed", "yes"}}}}}});
  wait(kPreemptPollInterval);
  EXPECT_TRUE(read("victim")["metadata"]["deletionTimestamp"].is_null());
  EXPECT_THAT(ended, IsEmpty());
  EXPECT_THAT(problems, IsEmpty()) << "it is refused again, and looked at again";
  EXPECT_FALSE(preemption->is_evicting(uid("p")));
  EXPECT_EQ(ledger.counts().nominated, 0U);
}

TEST_F(CardPreemptionTest, EvictsNobodyForAPodThatIsBoundOrNominated) {
  server.merge(kTeamPods + "/p/status", {{"status", {{"nominatedNodeName", "n1"}}}});
  refuse("p");
  wait(4 * kPreemptPollInterval);
  post(kTeamPods + "/p/binding", test::binding_json("p", "n1"));
  server.writes.clear();
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, TakesTheNominationBackWhereNobodyCanBeEvicted) {
  server.fault = [](const kube::Request& request) -> std::optional<kube::Fault> {
    if (request.method != kube::Method::kDelete) return std::nullopt;
    return kube::Fault{.status = 403};
  };
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_TRUE(read("p")["status"]["nominatedNodeName"].is_null());
  EXPECT_EQ(ledger.counts().nominated, 0U);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("delete pod team/victim")));
  server.writes.clear();
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty()) << "the right is not tried again at once";
}

TEST_F(CardPreemptionTest, APodThatHasTheNameOfAVictimStays) {
  refuse("p");
  server.executor().advance(2 * kPreemptAfter);
  server.run();
  choosing.run_ready();
  server.api().call({.method = kube::Method::kDelete,
                     .target = kTeamPods + "/victim",
                     .body = R"({"gracePeriodSeconds":0})",
                     .content_type = "application/json"});
  create("victim", "60", 1);
  server.run();
  EXPECT_FALSE(read("victim")["metadata"].contains("deletionTimestamp"));
  EXPECT_FALSE(read("victim")["status"].contains("conditions"));
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(CardPreemptionTest, AChoiceIsVoidWhereFilterPassesThePodMeanwhile) {
  refuse("p");
  server.executor().advance(2 * kPreemptAfter);
  server.run();
  preemption->on_filter(pod("p"), FilterReply{});
  choosing.run_ready();
  server.run();
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, AnEvictionWithoutAnAnswerIsRepeated) {
  int lost = 2;
  server.fault = [&lost](const kube::Request& request) -> std::optional<kube::Fault> {
    if (request.method != kube::Method::kDelete || lost == 0) return std::nullopt;
    --lost;
    return kube::Fault{.status = 504};
  };
  refuse("p");
  wait(20 * kPreemptPollInterval);
  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_TRUE(read("victim")["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(read("p")["status"]["nominatedNodeName"], "n1");
}

}  // namespace
}  // namespace mgpu::extender
