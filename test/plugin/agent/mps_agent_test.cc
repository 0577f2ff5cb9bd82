// The agent with --isolation=mps: containers across a restart, and what it publishes for MPS.
#include <gmock/gmock.h>

#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/agent/agent_world.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

using test::device_ids;
using test::eventually;
using testing::HasSubstr;

class MpsAgentTest : public test::AgentTest {
 public:
  ~MpsAgentTest() override {
    end();
    kill_daemons();
  }
  void kill_daemons() const {
    for (const char* card : {"GPU-0", "GPU-1"}) {
      const auto daemon = known_mps_daemon(mps_folders(path("/run"), CardUuid(card)));
      if (daemon) kill_mps_daemon(*daemon);
    }
  }
  // 30 % of each.
  void create_with_parts_of_both_cards(const std::string& pod) {
    api_.create(pod, {{"main", 60, 2'000, "0,1"}});
    api_.annotate(pod, test::contract().container_multiple_gpu, "2");
  }
  AgentOptions options() const {
    AgentOptions options = AgentTest::options();
    options.isolation.mode = IsolationMode::kMps;
    options.isolation.mps.control = beside_the_test("fake_mps_control");
    return options;
  }
};

// The runtime may be about to create the container, and a spec without its pipe directory would
// leave it without a device.
TEST_F(MpsAgentTest, KeepsRunningContainersInTheCdiSpecWhileNoDaemonRuns) {
  start_ready(options());
  api_.create("a", {{"main", 30, 1'000, "1"}});
  const std::string before = allocate("a", device_ids(30));
  ASSERT_TRUE(eventually([this] { return pre_start(device_ids(30)) == "started"; }));
  end();
  kill_daemons();
  AgentOptions later = options();
  later.isolation.mps.watch_only = true;
  start_ready(later);
  api_.create("b", {{"main", 100, 1'000, "0"}});
  allocate("b", device_ids(100, 30));
  ASSERT_EQ(pre_start(device_ids(100, 30)), "started");
  EXPECT_EQ(injected(before, "CUDA_MPS_PIPE_DIRECTORY"), "/run/mgpu/mps");
}

TEST_F(MpsAgentTest, NoContainerWithAPartOfACardStartsWhileNoDaemonRuns) {
  AgentOptions without_daemons = options();
  without_daemons.isolation.mps.watch_only = true;
  start_ready(without_daemons);
  api_.create("a", {{"main", 30, 1'000, "1"}});
  allocate("a", device_ids(30));
  EXPECT_THAT(pre_start(device_ids(30)), HasSubstr("MPS of card \"GPU-1\" does not run"));
}

// --- what a pod must request ---------------------------------------------------------------------

CardFacts card_with(Percent core) {
  CardFacts card = test::card_facts(0);
  card.core = core;
  return card;
}

TEST(LeastShare, LeavesAPlaceAtTheServerOfMpsForEachShareOfACard) {
  EXPECT_EQ(least_share(IsolationMode::kMps, ComputeMode::kMps, {card_with(Percent(100))}).core,
            Percent(3));
  EXPECT_EQ(least_share(IsolationMode::kMps, ComputeMode::kMps, {card_with(Percent(96))}).core,
            Percent(2));
  for (int factor = 1; factor <= 10; ++factor) {
    const Percent all(100 * factor);
    const auto least =
        least_share(IsolationMode::kMps, ComputeMode::kMps, {card_with(all)}).core.value();
    EXPECT_LE(all.value() / least, 48) << factor;
    EXPECT_GT(all.value() / (least - 1), 48) << factor << ": a smaller share would do";
  }
}

TEST(LeastShare, IsThatOfTheCardWithTheMostCompute) {
  const std::vector<CardFacts> cards = {card_with(Percent(100)), card_with(Percent(200))};
  EXPECT_EQ(least_share(IsolationMode::kMps, ComputeMode::kMps, cards).core, Percent(5));
}

TEST(LeastShare, HasMemoryForAProgramWhereItsContextCounts) {
  const std::vector<CardFacts> cards = {card_with(Percent(100))};
  EXPECT_EQ(least_share(IsolationMode::kMps, ComputeMode::kMps, cards).memory, MiB(1024));
  EXPECT_EQ(least_share(IsolationMode::kDriver, ComputeMode::kNone, cards),
            (Share{Percent(0), MiB(1024)}));
  EXPECT_EQ(least_share(IsolationMode::kDriver, ComputeMode::kMps, cards),
            (Share{Percent(3), MiB(1024)}));
  EXPECT_EQ(least_share(IsolationMode::kNone, ComputeMode::kNone, cards), Share());
  EXPECT_EQ(least_share(IsolationMode::kIntercept, ComputeMode::kNone, cards).memory, MiB(1024));
  EXPECT_EQ(least_share(IsolationMode::kAuto, ComputeMode::kNone, cards).memory, MiB(1024))
      << "it may be any of them";
}

TEST_F(MpsAgentTest, PublishesTheLeastShare) {
  start_ready(options());
  EXPECT_TRUE(eventually([this] {
    return published().profile.minimum == Share{Percent(3), MiB(1024)};
  }));
}

TEST_F(MpsAgentTest, PublishesTheLeastMemoryThatIsSet) {
  AgentOptions small = options();
  small.minimum_memory = MiB(300);
  start_ready(small);
  EXPECT_TRUE(eventually([this] {
    return published().profile.minimum == Share{Percent(3), MiB(300)};
  }));
}

TEST_F(MpsAgentTest, AProfileMayRequireMoreComputeAndLessMemory) {
  AgentOptions with_profile = options();
  with_profile.profiles = {
      {.name = "more", .node_selector = {{"pool", "a"}}, .minimum = {Percent(10), MiB()}},
      {.name = "less", .node_selector = {{"pool", "b"}}, .minimum = {Percent(1), MiB(500)}},
      {.name = "double", .node_selector = {{"pool", "c"}}, .core = Percent(200)}};
  const auto label = [this](const std::string& pool) {
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1",
              Json{{"metadata", {{"labels", {{"pool", pool}}}}}}.dump());
  };
  const auto requires_at_least = [this](std::int64_t core, std::int64_t memory) {
    return eventually([&] {
      return published().profile.minimum == Share{Percent(core), MiB(memory)};
    });
  };
  label("a");
  start_ready(with_profile);
  EXPECT_TRUE(requires_at_least(10, 1024));
  label("b");
  EXPECT_TRUE(requires_at_least(3, 500));
  label("c");
  EXPECT_TRUE(requires_at_least(5, 1024));
}

// --- parts of several cards ----------------------------------------------------------------------

TEST_F(MpsAgentTest, PartsOfSeveralCardsDoNotStart) {
  start_ready(options());
  EXPECT_TRUE(eventually([this] { return published().profile.parts_of_one_card; }));
  create_with_parts_of_both_cards("a");
  allocate("a", device_ids(60));
  EXPECT_THAT(pre_start(device_ids(60)), HasSubstr("MPS cannot limit parts of several cards"));
}

TEST_F(MpsAgentTest, PartsOfSeveralCardsStartWithoutLimitsIfThatIsAllowed) {
  AgentOptions allowed = options();
  allowed.isolation.mps_parts_without_limits = true;
  start_ready(allowed);
  create_with_parts_of_both_cards("a");
  const std::string allocation = allocate("a", device_ids(60));
  EXPECT_EQ(pre_start(device_ids(60)), "started");
  EXPECT_EQ(injected(allocation, "CUDA_MPS_PIPE_DIRECTORY"), "none");
  EXPECT_TRUE(eventually([this] { return announced().size() == 2; }));
  EXPECT_FALSE(published().profile.parts_of_one_card);
}

}  // namespace
}  // namespace mgpu::plugin
