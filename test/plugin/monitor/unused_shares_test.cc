#include "plugin/monitor/unused_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/drift_world.h"

namespace mgpu::plugin {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kAfter = minutes(10);

class UnusedSharesTest : public testing::Test {
 public:
  // Samples each 5 s for this time. Returns what is unused at its end.
  std::string after(Duration time) {
    std::string found;
    for (Duration passed(0); passed < time; passed += seconds(5)) {
      world_.facts.now += seconds(5);
      last_ = shares_.step(world_.facts);
      found = containers_of(last_);
    }
    return found;
  }

  DriftWorld world_;
  UnusedShares shares_{kAfter};
  std::vector<Drift> last_;
};

TEST_F(UnusedSharesTest, NobodyKnowsWhatWasBeforeTheFirstSample) {
  EXPECT_EQ(after(kAfter), "");
  EXPECT_EQ(after(seconds(5)), "a/app");
  EXPECT_EQ(after(minutes(60)), "a/app");
}

TEST_F(UnusedSharesTest, AShareIsUsedWhileAProcessIsOnItsCard) {
  world_.use({process(0, 11, 5, "a", "app")});
  EXPECT_EQ(after(minutes(60)), "");
  world_.use({});
  EXPECT_EQ(after(kAfter - seconds(5)), "");
  EXPECT_EQ(after(seconds(5)), "a/app");
  world_.use({process(0, 12, 5, "a", "app")});
  EXPECT_EQ(after(seconds(5)), "");
}

TEST_F(UnusedSharesTest, SinceIsTheLastUse) {
  world_.use({process(0, 11, 5, "a", "app")});
  after(minutes(3));
  const Instant used = world_.facts.now;
  world_.use({});
  ASSERT_EQ(after(minutes(20)), "a/app");
  EXPECT_EQ(last_[0].since, used);
  EXPECT_EQ(last_[0].card, card(0));
  EXPECT_EQ(last_[0].message,
            "no process of container \"app\" of pod ml/a has been on card 0 (GPU-0) for at least "
            "10m, where it holds 30 % and 1000 MiB; delete the pod if it is not needed, or let the "
            "container request no card");
}

TEST_F(UnusedSharesTest, EachCardOfAContainerIsAShareOfItsOwn) {
  world_.run("b", "two", {1, 2});
  world_.use({process(0, 11, 5, "a", "app"), process(2, 12, 5, "b", "two")});
  ASSERT_EQ(after(minutes(20)), "b/two");
  EXPECT_EQ(last_[0].index, CardIndex(1));
}

TEST_F(UnusedSharesTest, ProcessesOfOthersAreNoUse) {
  world_.run("b", "app", {0});
  world_.run("a", "helper", {0});
  world_.use({process(0, 11, 5, "b", "app"), process(0, 12, 5, "a", "helper"), process(0, 13, 5)});
  EXPECT_EQ(after(minutes(20)), "a/app");
}

TEST_F(UnusedSharesTest, AProcessOfAContainerThatIsNotKnownYetIsUse) {
  world_.use({process(0, 11, 5, "a", "new")});
  EXPECT_EQ(after(minutes(20)), "");
}

TEST_F(UnusedSharesTest, AContainerThatStartsAgainIsANewOne) {
  ASSERT_EQ(after(minutes(20)), "a/app");
  world_.pod().container_statuses[0].id = "containerd://other";
  EXPECT_EQ(after(kAfter), "");
  EXPECT_EQ(after(seconds(5)), "a/app");
}

TEST_F(UnusedSharesTest, OnlyRunningContainersHaveUnusedShares) {
  const std::vector<DriftCase> cases{
      {"it restarts", [](DriftWorld& w) { w.pod().container_statuses[0].running = false; }},
      {"the pod has finished", [](DriftWorld& w) { w.pod().phase = "Succeeded"; }},
      {"the pod is being deleted", [](DriftWorld& w) { w.pod().metadata.being_deleted = true; }},
      {"the pod is gone", [](DriftWorld& w) { w.facts.pods.clear(); }},
      {"an init container",
       [](DriftWorld& w) { w.facts.records[0].owner->kind = ContainerKind::kInit; }},
      {"its card is not healthy", [](DriftWorld& w) { w.facts.cards[0].health = "XID 79"; }},
      {"its card is reserved",
       [](DriftWorld& w) { w.facts.cards[0].health = std::string(kReservedBy) + "x"; }},
      {"the pod has no processes: what the API server reports is old",
       [](DriftWorld& w) { w.with_processes->clear(); }},
      {"processes are not visible", [](DriftWorld& w) { w.with_processes.reset(); }},
      {"the driver does not list processes",
       [](DriftWorld& w) { w.facts.processes->complete.clear(); }},
  };
  for (const DriftCase& one : cases) {
    DriftWorld world;
    UnusedShares shares(kAfter);
    one.change(world);
    std::string found;
    for (int step = 0; step < 200; ++step) {
      world.facts.now += seconds(5);
      found += containers_of(shares.step(world.facts));
    }
    EXPECT_EQ(found, "") << one.what;
  }
}

// It may have been a process of this container.
TEST_F(UnusedSharesTest, AProcessThatEndedTooSoonIsUse) {
  after(kAfter - seconds(5));
  world_.facts.processes->doubtful = {card(0)};
  world_.facts.processes->complete.erase(card(0));
  EXPECT_EQ(after(seconds(5)), "");
  world_.facts.processes->doubtful.clear();
  world_.facts.processes->complete.insert(card(0));
  EXPECT_EQ(after(kAfter - seconds(5)), "");
  EXPECT_EQ(after(seconds(5)), "a/app");
}

// Otherwise short programs of others would report the share again and again.
TEST_F(UnusedSharesTest, SuchAProcessDoesNotEndWhatWasFound) {
  ASSERT_EQ(after(minutes(20)), "a/app");
  world_.facts.processes->doubtful = {card(0)};
  world_.facts.processes->complete.erase(card(0));
  EXPECT_EQ(after(seconds(30)), "a/app");
}

TEST_F(UnusedSharesTest, TimeWithoutMeasurementsDoesNotCount) {
  after(kAfter - seconds(30));
  world_.facts.processes->complete.clear();
  EXPECT_EQ(after(minutes(5)), "");
  world_.facts.processes->complete = {card(0)};
  EXPECT_EQ(after(kAfter), "");
  EXPECT_EQ(after(seconds(5)), "a/app");
}

}  // namespace
}  // namespace mgpu::plugin
