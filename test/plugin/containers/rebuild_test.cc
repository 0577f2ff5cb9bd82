#include "plugin/containers/rebuild.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/support/gpu_objects.h"

namespace mgpu::plugin {
namespace {
using test::card_facts;
using testing::HasSubstr;
using testing::SizeIs;

const Record kRecord = test::allocated(test::device_ids(30), "a");

CheckpointEntry entry(const Record& record = kRecord) {
  return {PodUid("uid-x"), "main", record.devices, record.id};
}

kube::Pod pod(const std::string& container_id, const std::string& cards = "1") {
  kube::Pod made = test::gpu_pod("x", {{"main", 30, 1'000, cards}});
  made.container_statuses = {{"main", container_id}};
  return made;
}

std::optional<Rebuilt> rebuilt(const std::optional<kube::Pod>& pod,
                               const std::string& health = "Healthy") {
  return rebuild(entry(), pod, {card_facts(0), card_facts(1, health)}, test::contract());
}

TEST(LostEntries, AreTheAllocationsWithoutARecord) {
  const Record other = test::allocated(test::device_ids(30, 30), "b");
  const CheckpointEntry foreign = {PodUid("u"), "main", other.devices, AllocationId()};
  const CheckpointEntry hostile = {PodUid("u"), "main", other.devices, AllocationId("../x")};
  const auto lost = lost_entries({.entries = {entry(), entry(other), foreign, hostile}}, {kRecord});
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].allocation, other.id);
}

TEST(LostEntries, AreNoneIfAllHaveRecords) {
  EXPECT_THAT(lost_entries({.entries = {entry()}}, {kRecord}), testing::IsEmpty());
  EXPECT_THAT(lost_entries({}, {kRecord}), testing::IsEmpty());
}

TEST(Rebuild, AStartedContainerHasTheCardsOfItsAnnotation) {
  const auto made = rebuilt(pod("containerd://1"));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->problem, "");
  EXPECT_EQ(made->record.id, kRecord.id);
  EXPECT_EQ(made->record.devices, kRecord.devices);
  ASSERT_TRUE(made->record.bound());
  EXPECT_EQ(made->record.owner->pod, (PodRef{"ml", "x"}));
  EXPECT_EQ(made->record.owner->uid, PodUid("uid-x"));
  ASSERT_THAT(made->record.cards, SizeIs(1));
  EXPECT_EQ(made->record.cards[0].uuid, CardUuid("GPU-1"));
  EXPECT_EQ(made->record.cards[0].share, (Share{Percent(30), MiB(1'000)}));
}

TEST(Rebuild, AStartedContainerKeepsAnUnhealthyCard) {
  const auto made = rebuilt(pod("containerd://1"), "XID 79");
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->record.bound());
}

TEST(Rebuild, AnUnstartedContainerIsNotBound) {
  for (const auto& waiting : {pod(""), test::gpu_pod("x", {{"main", 30, 1'000, "1"}})}) {
    const auto made = rebuilt(waiting);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->record, kRecord);
    EXPECT_EQ(made->problem, "");
  }
}

TEST(Rebuild, AnEndedPodHasNoRecord) {
  EXPECT_FALSE(rebuilt(std::nullopt));
  for (const char* phase : {"Succeeded", "Failed"}) {
    kube::Pod finished = pod("containerd://1");
    finished.phase = phase;
    EXPECT_FALSE(rebuilt(finished)) << phase;
  }
}

TEST(Rebuild, ReportsWhyTheCardsAreUnknown) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "without cards"}, {"7", "card 7"}, {"one", "one"}};
  for (const auto& [cards, words] : cases) {
    kube::Pod wrong = pod("containerd://1", "1");
    wrong.metadata.annotations[test::contract().index_key("main")] = cards;
    if (*cards == 0) wrong.metadata.annotations.clear();
    const auto made = rebuilt(wrong);
    ASSERT_TRUE(made);
    EXPECT_FALSE(made->record.bound());
    EXPECT_THAT(made->problem, HasSubstr(words));
  }
}

}  // namespace
}  // namespace mgpu::plugin
