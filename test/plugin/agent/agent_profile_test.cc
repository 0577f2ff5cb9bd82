// The profile of the node: what it changes, and that it follows the node's labels.
#include <gmock/gmock.h>

#include <filesystem>

#include "plugin/agent/node_profiles.h"
#include "test/plugin/agent/agent_world.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using test::contract;
using test::device_ids;
using test::eventually;

class AgentProfileTest : public test::AgentTest {
 public:
  AgentOptions with_profiles() const {
    AgentOptions options = test::AgentTest::options();
    options.profiles = {{.name = "double", .node_selector = {{"pool", "a"}}, .core = Percent(200)},
                        {.name = "single", .node_selector = {{"pool", "b"}}},
                        {.name = "small",
                         .policy = "spread",
                         .minimum = {Percent(10), MiB(500)},
                         .reserve = MiB(1000),
                         .reserved_cards = {CardIndex(0)}},
                        {.name = "limited", .isolation = "mps"},
                        {.name = "other", .node_selector = {{"zone", "b"}}}};
    return options;
  }
  // null removes a label.
  void label(const Json& labels) {
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1",
              Json{{"metadata", {{"labels", labels}}}}.dump());
  }
  void name_profile(const std::string& name) { label({{contract().profile, name}}); }
  bool follows(const std::string& name) {
    return eventually([&] { return published().profile.name == name; });
  }
  Percent core_of(std::size_t card) {
    const auto cards = announced();
    return card < cards.size() ? cards[card].core : Percent();
  }
  // Starts a pod that has the devices first .. first + 75 of card 0.
  void run_75(const std::string& pod, std::int64_t first) {
    api_.create(pod, {{"main", 75, 1'000, "0"}});
    const Ids ids = device_ids(75, first);
    allocate(pod, ids);
    EXPECT_EQ(pre_start(ids), "started");
  }
};

TEST_F(AgentProfileTest, WithoutProfilesPublishesOnlyTheIsolation) {
  label({{"pool", "a"}});
  start_ready();
  ASSERT_TRUE(eventually([this] { return announced().size() == 2; }));
  EXPECT_EQ(published().profile, NodeProfile{.isolation = "none"});
  EXPECT_EQ(devices(), 200U);
}

TEST_F(AgentProfileTest, OffersMoreComputeAndPublishesIt) {
  label({{"pool", "a"}});
  start_ready(with_profiles());
  EXPECT_EQ(devices(), 400U);
  ASSERT_TRUE(follows("double"));
  EXPECT_EQ(core_of(0), Percent(200));
  EXPECT_EQ(announced()[0].memory, MiB(test::kCardMemory));
  EXPECT_EQ(published().profile.isolation, "none");
}

TEST_F(AgentProfileTest, ReservesMemoryAndCards) {
  name_profile("small");
  start_ready(with_profiles());
  EXPECT_EQ(devices(), 100U);
  ASSERT_TRUE(follows("small"));
  const NodeCards node = published();
  EXPECT_EQ(node.cards[0].health, "reserved by profile small");
  EXPECT_EQ(node.cards[1].memory, MiB(test::kCardMemory - 1'000));
  EXPECT_EQ(node.profile.policy, "spread");
  EXPECT_EQ(node.profile.minimum, (Share{Percent(10), MiB(500)}));
  EXPECT_EQ(event("MGPUCardUnhealthy", "default"), "");
}

TEST_F(AgentProfileTest, FollowsTheLabelsOfTheNode) {
  label({{"pool", "b"}});
  start_ready(with_profiles());
  ASSERT_TRUE(follows("single"));
  label({{"pool", "a"}});
  ASSERT_TRUE(follows("double"));
  EXPECT_TRUE(eventually([this] { return devices() == 400U && core_of(0) == Percent(200); }));
  label({{"pool", nullptr}});
  ASSERT_TRUE(follows(""));
  EXPECT_TRUE(eventually([this] { return devices() == 200U && core_of(0) == Percent(100); }));
}

// Otherwise kubelet would not start their containers again.
TEST_F(AgentProfileTest, LessComputeLeavesPodsWhatTheyHold) {
  label({{"pool", "a"}});
  start_ready(with_profiles());
  ASSERT_TRUE(follows("double"));
  run_75("x", 200);
  run_75("y", 300);
  label({{"pool", "b"}});
  ASSERT_TRUE(follows("single"));
  EXPECT_TRUE(eventually([this] { return core_of(0) == Percent(150) && devices() == 250U; }));
  EXPECT_EQ(core_of(1), Percent(100));
  const auto ids = *kubelet_->devices(test::kCore);
  EXPECT_NE(std::ranges::find(ids, core_device_id(374)), ids.end()) << "a device in use";
}

TEST_F(AgentProfileTest, ContainersStartAgainOnACardThatIsReservedMeanwhile) {
  start_ready(with_profiles());
  run("old", 0);
  name_profile("small");
  ASSERT_TRUE(eventually([this] { return !announced().empty() && announced()[0].reserved(); }));
  EXPECT_EQ(pre_start(device_ids(30)), "started");

  api_.create("new", {{"main", 10, 1'000, "0"}});
  const Ids ids = device_ids(10, 190);
  allocate("new", ids);
  EXPECT_THAT(pre_start(ids), testing::HasSubstr("reserved by profile small"));
}

TEST_F(AgentProfileTest, LabelsThatChooseNoProfileAreReportedAndTheLastOneStays) {
  label({{"pool", "a"}});
  start_ready(with_profiles());
  ASSERT_TRUE(follows("double"));
  label({{"zone", "b"}});
  const auto reported = [this] { return published().profile.problem; };
  ASSERT_TRUE(eventually([&] { return !reported().empty(); }));
  EXPECT_THAT(reported(), testing::HasSubstr("match the profiles \"double\" and \"other\""));
  EXPECT_EQ(published().profile.name, "double");
  EXPECT_EQ(core_of(0), Percent(200));
  EXPECT_TRUE(eventually([this] { return !event("MGPUProfileUnknown", "default").empty(); }));

  name_profile("nobody");
  EXPECT_TRUE(eventually([&] { return test::contains("\"nobody\"", reported()); }));
  name_profile("double");
  EXPECT_TRUE(eventually([&] { return reported().empty(); }));
}

TEST(NodeProfiles, SavesTheNameAgainAfterItsFileCouldNotBeWritten) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("state/profile");
  NodeProfiles profiles({{.name = "a"}}, "profile", file);
  EXPECT_TRUE(profiles.choose({{"profile", "a"}}));
  EXPECT_FALSE(profiles.choose({{"profile", "a"}}));
  std::filesystem::create_directory(folder.path("state"));
  EXPECT_FALSE(profiles.choose({{"profile", "a"}}));
  EXPECT_EQ(read_file(file, 100, "the file").value(), "a");
}

TEST_F(AgentProfileTest, OffersNothingBeforeItKnowsTheLabels) {
  api_.cut_off(true);
  start(with_profiles());
  ASSERT_TRUE(
      eventually([this] { return test::contains("the labels of node n1", get("/readyz").body); }));
  EXPECT_EQ(devices(), 0U);
  api_.cut_off(false);
  EXPECT_TRUE(eventually([this] { return devices() == 200U; }));
}

TEST_F(AgentProfileTest, KeepsItsProfileAfterARestartWithoutTheApiServer) {
  label({{"pool", "a"}});
  start_ready(with_profiles());
  ASSERT_TRUE(follows("double"));
  end();
  api_.cut_off(true);
  start(with_profiles());
  EXPECT_TRUE(eventually([this] { return devices() == 400U; }));
  end();
  api_.cut_off(false);
}

TEST_F(AgentProfileTest, IsolationChangesWhenNoContainerHoldsACard) {
  start_ready(with_profiles());
  run("old", 0);
  name_profile("limited");
  ASSERT_TRUE(follows("limited"));
  ASSERT_TRUE(eventually([this] { return !published().profile.problem.empty(); }));
  EXPECT_EQ(published().profile.problem,
            "isolation mps begins when no container holds a card; until then it is none");
  EXPECT_EQ(published().profile.isolation, "none");

  // Also if the plugin starts again meanwhile.
  start_ready(with_profiles());
  EXPECT_TRUE(eventually([this] { return published().profile.isolation == "none"; }));
  EXPECT_EQ(pre_start(device_ids(30)), "started");
}

TEST_F(AgentProfileTest, IsolationChangesAtOnceWithoutContainers) {
  start_ready(with_profiles());
  ASSERT_TRUE(eventually([this] { return published().profile.isolation == "none"; }));
  name_profile("limited");
  EXPECT_TRUE(eventually([this] { return published().profile.isolation == "mps"; }));
  EXPECT_EQ(published().profile.problem, "");
  name_profile("single");
  EXPECT_TRUE(eventually([this] { return published().profile.isolation == "none"; }));
}

}  // namespace
}  // namespace mgpu::plugin
