#include "plugin/monitor/waiting_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/monitor_world.h"
#include "test/plugin/support/gpu_objects.h"

namespace mgpu::plugin {
namespace {

using test::GpuContainer;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class WaitingSharesTest : public testing::Test {
 public:
  void add_pod(const std::vector<GpuContainer>& containers) {
    pods_.push_back(test::gpu_pod("a", containers));
  }
  // A container of the pod holds a share of card 0.
  void record(const std::string& container, std::int64_t core, bool held = true) {
    ContainerUse use;
    use.owner = {pods_[0].ref(), pods_[0].uid(), container, ContainerKind::kApp, 0};
    use.grant = {CardIndex(0), CardUuid("GPU-0"), {Percent(core), MiB(1'000)}};
    uses_.push_back(use);
    if (held) held_.push_back({use.owner, use.grant});
  }
  std::vector<HeldShare> shares() const {
    return waiting_shares(pods_, uses_, held_, {test::card_facts(0), test::card_facts(1)},
                          test::contract());
  }
  // "main 0 30" for 30 % of card 0
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const HeldShare& share : shares()) {
      all.push_back(share.container.container + " " + std::to_string(share.grant.index.value()) +
                    " " + std::to_string(share.grant.share.core.value()));
    }
    return all;
  }

  std::vector<kube::Pod> pods_;
  std::vector<ContainerUse> uses_;
  std::vector<HeldShare> held_;
};

TEST_F(WaitingSharesTest, AreThoseOfAPodThatIsBoundAndHasNotStarted) {
  add_pod({{"main", 30, 1'000, "1"}});
  const auto found = shares();
  ASSERT_THAT(found, SizeIs(1));
  const HeldShare& share = found[0];
  EXPECT_EQ(share.container, (Owner{{"ml", "a"}, pods_[0].uid(), "main", ContainerKind::kApp, 0}));
  EXPECT_EQ(share.grant, (CardGrant{CardIndex(1), CardUuid("GPU-1"), {Percent(30), MiB(1'000)}}));
  EXPECT_EQ(share.pod_owner, (kube::PodOwner{"Pod", "a"}));
  EXPECT_EQ(share.sm_percent, 0) << "nobody can use it";
  EXPECT_EQ(share.memory, MiB(0));
}

TEST_F(WaitingSharesTest, EndWithTheRecordOfTheContainer) {
  add_pod({{"main", 30, 1'000, "0"}, {"side", 20, 1'000, "0"}});
  EXPECT_THAT(texts(), ElementsAre("main 0 30", "side 0 20"));
  record("main", 30);
  EXPECT_THAT(texts(), ElementsAre("side 0 20"));
  record("side", 20);
  EXPECT_THAT(texts(), IsEmpty());
}

TEST_F(WaitingSharesTest, AreNoneOfOtherPods) {
  add_pod({{"main", 30, 1'000}});
  EXPECT_THAT(texts(), IsEmpty()) << "without an annotation";
  pods_ = {test::gpu_pod("a", {{"main", 30, 1'000, "0"}})};
  pods_[0].phase = "Failed";
  EXPECT_THAT(texts(), IsEmpty()) << "it has ended";
  pods_ = {test::gpu_pod("a", {{"main", 30, 1'000, "7"}})};
  EXPECT_THAT(texts(), IsEmpty()) << "a card that the node does not have";
  pods_ = {test::gpu_pod("a", {{"main", 30, 1'000, "x"}})};
  EXPECT_THAT(texts(), IsEmpty()) << "no number";
}

// Init containers have the same room as those that follow.
TEST_F(WaitingSharesTest, AreNoMoreThanKubernetesCounts) {
  add_pod({{"init", 50, 1'000, "0", true}, {"main", 30, 1'000, "0"}});
  EXPECT_THAT(texts(), ElementsAre("main 0 30", "init 0 20"));
  record("init", 50);
  EXPECT_THAT(texts(), IsEmpty()) << "the init container runs";
  held_.clear();
  EXPECT_THAT(texts(), ElementsAre("main 0 30")) << "it has ended";
}

TEST_F(WaitingSharesTest, OfAppContainersCountWhileASmallerInitContainerRuns) {
  add_pod({{"init", 10, 1'000, "0", true}, {"main", 100, 1'000, "0"}});
  record("init", 10);
  EXPECT_THAT(texts(), ElementsAre("main 0 90"));
}

TEST_F(WaitingSharesTest, OfAContainerThatHasStartedAreNotMeasured) {
  add_pod({{"main", 30, 1'000, "0"}});
  pods_[0].container_statuses = {{"main", "containerd://1", true}};
  ASSERT_THAT(shares(), SizeIs(1)) << "its record is lost";
  EXPECT_EQ(shares()[0].sm_percent, std::nullopt);
  EXPECT_EQ(shares()[0].memory, std::nullopt);
}

}  // namespace
}  // namespace mgpu::plugin
