#include "extender/pending_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "test/extender/team_world.h"

namespace mgpu::extender {
namespace {

using test::kMemoryOf;
using test::kPercentOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using EventJson = test::TeamWorld::Json;

class PendingEventsTest : public testing::Test, protected test::TeamWorld {
 protected:
  PendingEventsTest() {
    events.emplace(context, server.api(), computing, "extender-1", [this] { return decides; });
    events->start();
    server.run();
  }
  void wait(Duration time) { TeamWorld::wait(time, kPendingPollInterval); }
  std::vector<EventJson> written() { return server.events("team"); }

  std::optional<PendingEvents> events;
};

TEST_F(PendingEventsTest, SaysWhyAPodIsPending) {
  create("p", {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  wait(kPendingBeforeEvent - kPendingPollInterval);
  EXPECT_THAT(written(), IsEmpty());
  wait(2 * kPendingPollInterval);
  ASSERT_THAT(written(), SizeIs(1));
  const EventJson event = written()[0];
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "MGPUPending");
  EXPECT_EQ(event["source"]["component"], "mgpu-extender");
  EXPECT_EQ(event["involvedObject"]["kind"], "Pod");
  EXPECT_EQ(event["involvedObject"]["name"], "p");
  EXPECT_THAT(event["message"].get<std::string>(),
              HasSubstr("the largest card has mgpu-core 100 and mgpu-memory 8000. It fits on n1 "
                        "with mgpu-memory 8000 instead of 9000 for container app"));
  wait(2 * kPendingBetweenEvents);
  EXPECT_THAT(written(), SizeIs(1)) << "the answer is the same";
  EXPECT_EQ(written()[0]["count"], 1);
}

TEST_F(PendingEventsTest, SaysAnotherAnswer) {
  create("p", {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  wait(kPendingBeforeEvent + kPendingPollInterval);
  ledger.apply_node(test::facts_of("n1: 0[100/8500]"));
  wait(kPendingBetweenEvents + kPendingBetweenLooks);
  EXPECT_THAT(written(), SizeIs(2));
}

TEST_F(PendingEventsTest, SaysWhatKubeSchedulerNeverAsksAbout) {
  create("p", {{kPercentOf, "50"}});
  wait(kPendingBeforeEvent + kPendingPollInterval);
  ASSERT_THAT(written(), SizeIs(1));
  EXPECT_THAT(written()[0]["message"].get<std::string>(), HasSubstr("invalid request: container"));
}

TEST_F(PendingEventsTest, SaysNothingOfPodsThatDoNotWaitForCards) {
  create("no-cards", {});
  create("gated", {{kPercentOf, "60"}, {kMemoryOf, "9000"}},
         {{"spec", {{"schedulingGates", {{{"name", "queue"}}}}}}});
  create("bound", {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  post("/api/v1/namespaces/team/pods/bound/binding", test::binding_json("bound", "n1"));
  wait(2 * kPendingBeforeEvent);
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(PendingEventsTest, KnowsThePendingPodsOfAGroup) {
  const EventJson in_group = {{"spec", {{"schedulingGroup", {{"podGroupName", "g"}}}}}};
  create("worker", {{kPercentOf, "60"}, {kMemoryOf, "9000"}}, in_group);
  EXPECT_THAT(events->pods().of_group("team/g", 2), SizeIs(1));
  create("launcher", {}, in_group);
  EXPECT_THAT(events->pods().of_group("team/g", 2), IsEmpty()) << "it may fit nowhere";
  post("/api/v1/namespaces/team/pods/launcher/binding", test::binding_json("launcher", "n1"));
  EXPECT_THAT(events->pods().of_group("team/g", 2), SizeIs(1));
}

TEST_F(PendingEventsTest, OnlyTheProcessThatDecidesWrites) {
  decides = false;
  create("p", {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  wait(4 * kPendingBeforeEvent);
  EXPECT_THAT(written(), IsEmpty());
  decides = true;
  wait(kPendingPollInterval);
  EXPECT_THAT(written(), SizeIs(1)) << "it knows how long the pod has been pending";
}

TEST_F(PendingEventsTest, IsBoundedForANamespaceWithManyPods) {
  for (int i = 0; i < 40; ++i)
    create("p" + std::to_string(i), {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  wait(kPendingBeforeEvent);
  const std::size_t before = written().size();
  wait(3 * kPendingPollInterval);
  EXPECT_EQ(written().size(), before + 3 * kPendingOfANamespace);
}

TEST_F(PendingEventsTest, EndsWhileAnExplanationIsQueued) {
  create("p", {{kPercentOf, "60"}, {kMemoryOf, "9000"}});
  server.executor().advance(kPendingBeforeEvent + kPendingPollInterval);
  server.run();
  events.reset();
  computing.run_ready();
  server.run();
  EXPECT_THAT(written(), IsEmpty());
}

}  // namespace
}  // namespace mgpu::extender
