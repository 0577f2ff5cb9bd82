// Which shares of a card count, and the cards of restarted containers. For the identification of
// the container see pre_start_handler_test.cc.
#include <gmock/gmock.h>

#include <latch>

#include "test/plugin/containers/pre_start_handler_world.h"

namespace mgpu::plugin {
namespace {
using test::device_ids;
using test::sentence;
using testing::HasSubstr;

class PreStartHandlerCardsTest : public test::PreStartHandlerTest {
 public:
  // Starts a container with 60 percent of card 1.
  Record run_first() {
    auto record = place("first", 60, 1);
    EXPECT_EQ(sentence(start(device_ids(60))), "started");
    return record;
  }
  // Allocates another 60 percent of the same card.
  void place_second() { place("second", 60, 1, 60); }
  Started start_second_once() { return start_once(device_ids(60, 60)); }
  void wait_until_gone(const Record& record) {
    const PodUid uid = records_->find(record.id)->owner->uid;
    EXPECT_TRUE(test::comes_true([&] { return pods_->gone(uid); }));
  }
};

// --- capacity ------------------------------------------------------------------------------------

TEST_F(PreStartHandlerCardsTest, SharesACardUpToItsCapacity) {
  place("a", 60, 1);
  place("b", 40, 1, 60);
  EXPECT_EQ(sentence(start(device_ids(60))), "started");
  EXPECT_EQ(sentence(start(device_ids(40, 60))), "started");
}

TEST_F(PreStartHandlerCardsTest, RefusesAFullCardTemporarily) {
  run_first();
  place_second();
  const auto refused = start_second_once();
  EXPECT_EQ(refused.error().reason, RefusalReason::kFullCard);
  EXPECT_TRUE(refused.error().transient);
  EXPECT_THAT(sentence(refused), HasSubstr("ml/first"));
}

TEST_F(PreStartHandlerCardsTest, OneOfTwoConcurrentCallsGetsTheCard) {
  place("first", 60, 1);
  place_second();
  std::vector<std::future<Started>> both;
  both.push_back(std::async(std::launch::async, [&] { return start_once(device_ids(60)); }));
  both.push_back(std::async(std::launch::async, [&] { return start_second_once(); }));
  const Started one = both[0].get();
  const Started other = both[1].get();
  ASSERT_NE(one.has_value(), other.has_value()) << sentence(one) << "; " << sentence(other);
  EXPECT_EQ((one ? other : one).error().reason, RefusalReason::kFullCard);
}

TEST_F(PreStartHandlerCardsTest, ManyConcurrentCallsDoNotExceedCapacity) {
  constexpr int kPods = 32;
  for (int n = 0; n < kPods; ++n) place("pod" + std::to_string(n), 25, n % 4, n * 25);
  std::latch ready(kPods);
  std::vector<std::future<Started>> all;
  for (int n = 0; n < kPods; ++n) {
    all.push_back(std::async(std::launch::async, [&, n] {
      ready.arrive_and_wait();
      return start_once(device_ids(25, n * 25));
    }));
  }
  int started = 0;
  for (auto& one : all) started += one.get().has_value() ? 1 : 0;
  EXPECT_EQ(started, 16);
}

TEST_F(PreStartHandlerCardsTest, WaitsForAShareToBeReleased) {
  run_first();
  place_second();
  auto started = start_async(device_ids(60, 60));
  wait_for_attempts(kubelet_.calls() + 2);
  api_.remove("first");
  kubelet_.forget("first");
  EXPECT_EQ(sentence(started.get()), "started");
}

TEST_F(PreStartHandlerCardsTest, AFinishedPodReleasesItsShare) {
  const auto first = run_first();
  api_.set_phase("first", "Succeeded");
  kubelet_.forget("first");
  wait_until_gone(first);
  place_second();
  EXPECT_EQ(sentence(start_second_once()), "started");
}

TEST_F(PreStartHandlerCardsTest, AShareIsHeldWhileKubeletListsThePod) {
  const auto first = run_first();
  api_.remove("first");
  wait_until_gone(first);
  place_second();
  EXPECT_EQ(start_second_once().error().reason, RefusalReason::kFullCard);
}

TEST_F(PreStartHandlerCardsTest, AShareIsHeldWhileTheApiServerHasThePod) {
  run_first();
  kubelet_.forget("first");
  place_second();
  EXPECT_EQ(start_second_once().error().reason, RefusalReason::kFullCard);
}

TEST_F(PreStartHandlerCardsTest, AShareIsHeldWhileKubeletDoesNotAnswer) {
  const auto first = run_first();
  api_.remove("first");
  wait_until_gone(first);
  kubelet_.forget("first");
  place_second();
  const auto second = records_->with(DeviceSet::of(device_ids(60, 60)).value());
  test::write_checkpoint(folder_.path(), {{pods_->find(PodRef{"ml", "second"})->metadata.uid,
                                           "main", device_ids(60, 60), second[0].id.str()}});
  kubelet_.fail("PodResources does not answer");
  EXPECT_EQ(start_second_once().error().reason, RefusalReason::kFullCard);
  kubelet_.fail("");
  EXPECT_EQ(sentence(start_second_once()), "started");
}

TEST_F(PreStartHandlerCardsTest, TheDevicesOfAnEndedPodMayBeReused) {
  const auto first = run_first();
  api_.remove("first");
  kubelet_.forget("first");
  wait_until_gone(first);
  const auto again = place("second", 60, 2);
  EXPECT_EQ(sentence(start(device_ids(60))), "started");
  EXPECT_EQ(cards_of(again.id), "2");
}

// As for a StatefulSet, kubelet lists the new pod under the name of the old one.
TEST_F(PreStartHandlerCardsTest, ARecreatedPodGetsTheShareOfTheOldOne) {
  const auto first = run_first();
  api_.remove("first");
  kubelet_.forget("first");
  wait_until_gone(first);
  const auto again = place("first", 60, 1, 60);
  EXPECT_EQ(sentence(start_once(device_ids(60, 60))), "started");
  EXPECT_EQ(cards_of(again.id), "1");
}

TEST_F(PreStartHandlerCardsTest, ARecreatedPodMayHaveTheDevicesOfTheOldOne) {
  const auto first = run_first();
  api_.remove("first");
  kubelet_.forget("first");
  wait_until_gone(first);
  const auto pod = create("first", {{"main", 60, 1'000, "1"}});
  kubelet_.list("first", "main", device_ids(60));
  const auto again = allocate(device_ids(60), "again");
  test::write_checkpoint(folder_.path(),
                         {{pod.metadata.uid, "main", device_ids(60), again.id.str()}});
  EXPECT_EQ(sentence(start_once(device_ids(60))), "started");
  EXPECT_EQ(cards_of(again.id), "1");
}

// --- restarts ------------------------------------------------------------------------------------

TEST_F(PreStartHandlerCardsTest, ARestartGetsTheSameCards) {
  const auto first = run_first();
  const auto before = on_disk(first.id);
  EXPECT_EQ(sentence(start(device_ids(60))), "started");
  EXPECT_EQ(on_disk(first.id), before);
  EXPECT_EQ(cards_of(first.id), "1");
}

TEST_F(PreStartHandlerCardsTest, ARestartNeedsNoApiServer) {
  const auto first = run_first();
  api_.cut_off(true);
  EXPECT_EQ(sentence(start(device_ids(60))), "started");
  EXPECT_EQ(cards_of(first.id), "1");
}

TEST_F(PreStartHandlerCardsTest, ARestartAfterARestartOfThePluginNeedsNoApiServer) {
  const auto first = run_first();
  const auto before = on_disk(first.id);
  api_.cut_off(true);
  start_plugin();
  handler_->open();
  EXPECT_FALSE(pods_->listed());
  EXPECT_EQ(sentence(start_once(device_ids(60))), "started");
  EXPECT_EQ(on_disk(first.id), before);
}

TEST_F(PreStartHandlerCardsTest, ARestartWithoutPodResourcesAndApiServerGetsTheSameCards) {
  const auto first = run_first();
  api_.cut_off(true);
  kubelet_.fail("PodResources does not answer");
  start_plugin();
  handler_->open();
  EXPECT_EQ(sentence(start_once(device_ids(60))), "started");
  EXPECT_EQ(cards_of(first.id), "1");
}

TEST_F(PreStartHandlerCardsTest, ARestartOnAnUnhealthyCardIsRefused) {
  run_first();
  FoundCards found = test::found_cards(4);
  found.cards[1].health = "XID 79";
  cards_->say(found);
  ASSERT_TRUE(test::comes_true([&] { return !inventory_.state().cards[1].healthy(); }));
  for (const bool cut_off : {false, true}) {
    api_.cut_off(cut_off);
    if (cut_off) start_plugin();
    handler_->open();
    EXPECT_EQ(start_once(device_ids(60)).error().reason, RefusalReason::kUnhealthyCard) << cut_off;
  }
}

TEST_F(PreStartHandlerCardsTest, ARestartWithAChangedAnnotationIsRefused) {
  run_first();
  const PodUid uid = pods_->find(PodRef{"ml", "first"})->uid();
  api_.annotate("first", test::contract().index_key("main"), "2");
  ASSERT_TRUE(test::comes_true([&] {
    return pods_->find(uid)->metadata.annotations.at(test::contract().index_key("main")) == "2";
  }));
  const auto refused = start(device_ids(60));
  EXPECT_EQ(refused.error().reason, RefusalReason::kOtherCards);
  EXPECT_FALSE(refused.error().transient);
  EXPECT_THAT(sentence(refused), HasSubstr("GPU-1"));
}

TEST_F(PreStartHandlerCardsTest, WholeCardsHaveAllTheirDeviceNodes) {
  create("a", {{"main", 200, 0, "0,3"}});
  kubelet_.list("a", "main", device_ids(200));
  const auto record = allocate(device_ids(200));
  ASSERT_EQ(sentence(start(device_ids(200))), "started");
  const auto edits = injector_.injected().at(record.id);
  EXPECT_EQ(edits.environment.at("MGPU_CARDS"), "0,3");
  EXPECT_THAT(edits.devices, testing::ElementsAre(DeviceNode{"/dev/nvidia0", "/dev/nvidia0"},
                                                  DeviceNode{"/dev/nvidia3", "/dev/nvidia3"}));
}

}  // namespace
}  // namespace mgpu::plugin
