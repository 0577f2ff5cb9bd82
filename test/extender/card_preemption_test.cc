#include "extender/card_preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/kube/objects/object_json.h"
#include "test/extender/team_world.h"

namespace mgpu::extender {
namespace {

using test::kTeamPods;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = test::TeamWorld::Json;

// A node with one card, of which the pod "victim" has 60 %, and the pending pod "p" of 70 %.
class CardPreemptionTest : public testing::Test, protected test::TeamWorld {
 protected:
  CardPreemptionTest() {
    create_of("p", "70", 9);
    create_of("victim", "60", 1);
    post(kTeamPods + "/victim/binding", test::binding_json("victim", "n1"));
    claim_of_group("");
    preemption.emplace(
        context, server.api(), computing, "extender-1",
        CardEviction::Events{
            .decides = [this] { return decides; },
            .confirm =
                [this](const auto& done) {
                  const kube::ApiResult<void> answer = held;
                  if (answer || answer.error().kind == kube::ApiError::Kind::kUnavailable)
                    held = {};
                  if (loses_lease) decides = false;
                  done(answer);
                },
            .on_ended = [this](std::size_t victims) { ended.push_back(victims); },
            .on_problem = [this](const std::string& why) { problems.push_back(why); }},
        [this](const std::string& group, std::size_t most) {
          EXPECT_EQ(most, kPreemptMembersMax);
          return group == "team/g" ? members : std::vector<PendingPods::Pending>();
        });
    preemption->start();
    server.run();
    server.writes.clear();
  }
  void create_of(const std::string& name, const std::string& core, int priority) {
    create(name, {{test::kPercentOf, core}, {test::kMemoryOf, "1000"}},
           {{"spec", {{"priority", priority}}}});
  }
  Json read(const std::string& name) {
    return Json::parse(
        server.api().call({.method = kube::Method::kGet, .target = kTeamPods + "/" + name}).body);
  }
  PodUid uid(const std::string& name) {
    return PodUid(read(name)["metadata"]["uid"].get<std::string>());
  }
  kube::Pod pod(const std::string& name) { return *kube::read_pod(read(name).dump()); }
  void refuse(const std::string& name, const std::vector<std::string>& nodes = {"n1"}) {
    FilterReply reply;
    reply.outcome = FilterOutcome::kMayChange;
    for (const std::string& node : nodes) reply.failed.push_back({node, "no card"});
    preemption->on_filter(pod(name), reply);
  }
  void wait(Duration time) { TeamWorld::wait(time, kPreemptPollInterval); }
  std::vector<std::string> writes_of_pods() {
    std::vector<std::string> writes;
    for (const std::string& write : server.writes)
      if (write.find("/events") == write.npos) writes.push_back(write);
    return writes;
  }

  void claim_of_group(const std::string& group, int priority = 1) {
    Claim claim = test::bound_claim(uid("victim").str(), "n1", "60/1000", "0");
    claim.pod = {"team", "victim"};
    claim.priority = priority;
    claim.group = "team/" + group;
    claim.in_pod_group = !group.empty();
    ledger.apply_pod(claim);
  }
  // A pod of the least priority, alone in its PodGroup, which the API server does not know.
  void claim_alone(const std::string& name, const std::string& node, const char* request) {
    Claim claim = test::bound_claim(name, node, request, "0");
    claim.pod = {"team", name};
    claim.group = "team/" + name;
    claim.in_pod_group = true;
    ledger.apply_pod(claim);
  }
  // The pods g-0 and g-1 of a group, of 45 % each.
  void create_group() {
    NodeFacts node = test::facts_of("n1: 0[100/8000]");
    node.allocatable = {MilliCpu(8'000), MiB(8'000)};
    node.pods_allowed = 10;
    ledger.apply_node(node);
    for (const char* name : {"g-0", "g-1"}) {
      create(name, {{test::kPercentOf, "45"}, {test::kMemoryOf, "1000"}},
             {{"spec", {{"priority", 9}, {"schedulingGroup", {{"podGroupName", "g"}}}}}});
      members.push_back({{"team", name}, uid(name), "team/g"});
    }
    server.writes.clear();
  }

  kube::ApiResult<void> held;  // the next answer about the Lease
  bool loses_lease = false;
  std::vector<std::size_t> ended;
  std::vector<std::string> problems;
  std::vector<PendingPods::Pending> members;
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
  EXPECT_TRUE(preemption->is_evicting(pod("p")));
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
  preemption->on_preempted(pod("p"));
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

TEST_F(CardPreemptionTest, AProcessThatNoLongerHoldsTheLeaseEvictsNobody) {
  held = kube::ApiError{kube::ApiError::Kind::kRefused, "its holder is another"};
  loses_lease = true;
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(writes_of_pods(), ElementsAre("PATCH " + kTeamPods + "/p/status"));
  EXPECT_THAT(problems, IsEmpty()) << "the process ends";
}

TEST_F(CardPreemptionTest, TakesTheNominationBackWhereTheLeaseMayNotBeRead) {
  held = kube::ApiError{kube::ApiError::Kind::kRefused, "forbidden"};
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(problems, ElementsAre("forbidden"));
  EXPECT_TRUE(read("p")["status"]["nominatedNodeName"].is_null());
  EXPECT_TRUE(read("victim")["metadata"]["deletionTimestamp"].is_null());
  EXPECT_FALSE(preemption->is_evicting(pod("p")));
}

TEST_F(CardPreemptionTest, TakesTheNominationBackWhereTheProcessStopsDeciding) {
  server.fault = [this](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target == kTeamPods + "/p/status") decides = false;
    return std::nullopt;
  };
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("no longer decides")));
  EXPECT_TRUE(read("p")["status"]["nominatedNodeName"].is_null());
  EXPECT_TRUE(read("victim")["metadata"]["deletionTimestamp"].is_null());
}

TEST_F(CardPreemptionTest, ALeaseThatCannotBeReadIsReadAgain) {
  held = kube::ApiError{kube::ApiError::Kind::kUnavailable, "no answer"};
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(ended, ElementsAre(1));
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
  EXPECT_FALSE(preemption->is_evicting(pod("p")));
  EXPECT_EQ(ledger.reader().counts().nominated, 0U);
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
  server.fault = [](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.method != kube::Method::kDelete) return std::nullopt;
    return test::Fault{.status = 403};
  };
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_TRUE(read("p")["status"]["nominatedNodeName"].is_null());
  EXPECT_EQ(ledger.reader().counts().nominated, 0U);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("delete pod team/victim")));
  server.writes.clear();
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty()) << "the pod is spared";
}

TEST_F(CardPreemptionTest, WithoutTheRightToEvictNoPodIsLookedAtForAWhile) {
  server.fault = [](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target != kTeamPods + "/p/status") return std::nullopt;
    return test::Fault{.status = 403};
  };
  for (std::size_t i = 0; i < kPreemptRefusalsMax; ++i) {
    refuse("p");
    wait(4 * kPreemptPollInterval);
  }
  EXPECT_EQ(problems.size(), kPreemptRefusalsMax);
  refuse("p");
  wait(10 * kPreemptPollInterval);
  EXPECT_EQ(problems.size(), kPreemptRefusalsMax);
  wait(kPreemptRefusedPause);
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_EQ(problems.size(), kPreemptRefusalsMax + 1);
}

TEST_F(CardPreemptionTest, APodThatHasTheNameOfAVictimStays) {
  refuse("p");
  server.executor().advance(2 * kPreemptAfter);
  server.run();
  computing.run_ready();
  server.api().call({.method = kube::Method::kDelete,
                     .target = kTeamPods + "/victim",
                     .body = R"({"gracePeriodSeconds":0})",
                     .content_type = "application/json"});
  create_of("victim", "60", 1);
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
  computing.run_ready();
  server.run();
  EXPECT_THAT(server.writes, IsEmpty());
}

TEST_F(CardPreemptionTest, AnEvictionWithoutAnAnswerIsRepeated) {
  int lost = 2;
  server.fault = [&lost](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.method != kube::Method::kDelete || lost == 0) return std::nullopt;
    --lost;
    return test::Fault{.status = 504};
  };
  refuse("p");
  wait(20 * kPreemptPollInterval);
  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_TRUE(read("victim")["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(read("p")["status"]["nominatedNodeName"], "n1");
}

TEST_F(CardPreemptionTest, AGroupPreemptsAsAWhole) {
  create_group();
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(
      writes_of_pods(),
      ElementsAre("PATCH " + kTeamPods + "/g-0/status", "PATCH " + kTeamPods + "/g-1/status",
                  "PATCH " + kTeamPods + "/victim/status", "DELETE " + kTeamPods + "/victim"));
  for (const char* name : {"g-0", "g-1"}) {
    EXPECT_EQ(read(name)["status"]["nominatedNodeName"], "n1");
    EXPECT_TRUE(preemption->is_evicting(pod(name)));
  }
  EXPECT_EQ(ledger.reader().counts().nominated, 2U);
  const Json said = server.events("team");
  EXPECT_EQ(
      std::ranges::count(said, "MGPUPreempting", [](const Json& one) { return one["reason"]; }), 2);
  server.writes.clear();
  refuse("g-0");
  wait(10 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

// The PodGroup "g" of the victim.
TEST_F(CardPreemptionTest, AGroupThatIsEvictedTogetherIsSpared) {
  claim_of_group("g");
  post("/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups",
       R"({"metadata":{"name":"g","namespace":"team"},"spec":{"disruptionMode":{"all":{}}}})");
  server.writes.clear();
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
  EXPECT_THAT(problems, IsEmpty());
  claim_of_group("gone");
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(ended, ElementsAre(1)) << "such a group has no mode";
}

TEST_F(CardPreemptionTest, ABoundedNumberOfGroupsIsReadAtATime) {
  ledger.remove_pod(uid("victim"));
  constexpr int kVictims = kPreemptGroupReadsMax + 2;
  for (int i = 0; i < 100; ++i) claim_alone("alone-" + std::to_string(i), "n1", "1/10");
  create_of("large", std::to_string(kVictims), 9);
  int reads = 0;
  server.api().set_faults([&reads](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target.find("podgroups") != request.target.npos) ++reads;
    return std::nullopt;
  });
  refuse("large");
  wait(4 * kPreemptPollInterval);
  EXPECT_EQ(reads, kPreemptGroupReadsMax);
  EXPECT_THAT(ended, IsEmpty());
  refuse("large");
  wait(4 * kPreemptPollInterval);
  EXPECT_EQ(reads, kVictims) << "the others are known";
  EXPECT_THAT(ended, ElementsAre(kVictims));
}

TEST_F(CardPreemptionTest, ManyGroupsThatAreEvictedTogetherDoNotProtectOtherPods) {
  claim_of_group("", 2);
  std::vector<std::string> nodes{"n1"};
  for (int i = 0; i <= kPreemptChoicesMax; ++i) {
    const std::string name = "alone-" + std::to_string(i);
    nodes.push_back("node-" + name);
    ledger.apply_node(test::facts_of(nodes.back() + ": 0[100/8000]"));
    claim_alone(name, nodes.back(), "60/1000");
    post("/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups",
         R"({"metadata":{"namespace":"team","name":")" + name +
             R"("},"spec":{"disruptionMode":{"all":{}}}})");
  }
  refuse("p", nodes);
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_FALSE(read("victim")["metadata"]["deletionTimestamp"].is_null());
}

TEST_F(CardPreemptionTest, AGroupThatCannotBeReadIsSpared) {
  claim_of_group("g");
  server.api().set_faults([](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target.find("podgroups") == request.target.npos) return std::nullopt;
    return test::Fault{.status = 403};
  });
  refuse("p");
  wait(4 * kPreemptPollInterval);
  EXPECT_TRUE(read("victim")["metadata"]["deletionTimestamp"].is_null());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("get pod group team/g")));
}

TEST_F(CardPreemptionTest, WhereOnePodOfAGroupHasChangedNobodyIsEvicted) {
  create_group();
  server.fault = [](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.method != kube::Method::kPatch || !request.target.ends_with("/g-1/status"))
      return std::nullopt;
    return test::Fault{.status = 409};
  };
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  EXPECT_TRUE(read("victim")["metadata"]["deletionTimestamp"].is_null());
  EXPECT_TRUE(read("g-0")["status"]["nominatedNodeName"].is_null()) << "it is taken back";
  EXPECT_FALSE(preemption->is_evicting(pod("g-0")));
}

// kube-scheduler writes what it says of a pod to its status.
TEST_F(CardPreemptionTest, ANominationIsTakenBackWhereThePodHasChanged) {
  create_group();
  server.fault = [this](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.method != kube::Method::kPatch || !request.target.ends_with("/g-1/status"))
      return std::nullopt;
    server.api().call(kube::set_pod_condition({"team", "g-0"}, {"Changed", "since then"}));
    return test::Fault{.status = 409};
  };
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  EXPECT_FALSE(read("g-0")["status"]["conditions"].empty());
  EXPECT_TRUE(read("g-0")["status"]["nominatedNodeName"].is_null());
}

TEST_F(CardPreemptionTest, ANominationThatWasReplacedMeanwhileIsNotTakenBack) {
  create_group();
  server.fault = [this](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.method != kube::Method::kPatch || !request.target.ends_with("/g-1/status"))
      return std::nullopt;
    kube::Pod nominated = pod("g-0");
    nominated.metadata.resource_version.clear();
    server.api().call(kube::nominate(nominated, NodeName("n2")));
    return test::Fault{.status = 409};
  };
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  EXPECT_EQ(read("g-0")["status"]["nominatedNodeName"], "n2");
}

TEST_F(CardPreemptionTest, NobodyIsEvictedForAGroupWhosePodsAreNotKnownOrNotAllPending) {
  create_group();
  post(kTeamPods + "/g-0/binding", test::binding_json("g-0", "n1"));
  server.writes.clear();
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  members.clear();
  refuse("g-1");
  wait(4 * kPreemptPollInterval);
  EXPECT_THAT(server.writes, IsEmpty());
}

}  // namespace
}  // namespace mgpu::extender
