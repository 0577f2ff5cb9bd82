#include "plugin/allocation/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mgpu::plugin {
namespace {

using testing::HasSubstr;

const Contract& offer_contract() {
  static const Contract value = Contract::for_domain(kDefaultResourceDomain).value();
  return value;
}

std::vector<CardFacts> cards(const std::vector<std::string>& healths) {
  std::vector<CardFacts> all;
  for (const std::string& health : healths) {
    const auto index = static_cast<std::int32_t>(all.size());
    all.push_back({.index = CardIndex(index),
                   .uuid = CardUuid("GPU-" + std::to_string(index)),
                   .model = "V100",
                   .memory = MiB(32510),
                   .health = health});
  }
  return all;
}

Record held(std::int32_t card, std::int64_t first, std::int64_t count) {
  std::vector<std::string> ids;
  for (std::int64_t n = first; n < first + count; ++n) ids.push_back(core_device_id(n));
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.owner = Owner{{"a", "x"}, PodUid("u"), "app"};
  record.cards = {{CardIndex(card), CardUuid("GPU-" + std::to_string(card)), {Percent(count), {}}}};
  return record;
}

bool has(const std::vector<std::string>& ids, std::int64_t n) {
  return std::ranges::find(ids, core_device_id(n)) != ids.end();
}

// A pod of container requests "core/memory", each with the cards of its annotation.
kube::Pod annotated_pod(const std::vector<std::pair<std::string, std::string>>& requests,
                        const std::string& phase = "Running") {
  kube::Pod one;
  one.phase = phase;
  for (const auto& [amounts, indices] : requests) {
    kube::Container& container = one.containers.emplace_back();
    container.name = "c" + std::to_string(one.containers.size());
    const std::size_t slash = amounts.find('/');
    container.limits[offer_contract().core_resource] = amounts.substr(0, slash);
    if (slash != std::string::npos) {
      container.limits[offer_contract().memory_resource] = amounts.substr(slash + 1);
    }
    if (!indices.empty())
      one.metadata.annotations[offer_contract().index_key(container.name)] = indices;
  }
  return one;
}

// "core/memory"
std::string held_text(const std::vector<CardFacts>& cards, const std::vector<kube::Pod>& pods) {
  const Share held = held_on_unhealthy(cards, pods, offer_contract());
  return std::to_string(held.core.value()) + "/" + std::to_string(held.memory.value());
}

TEST(HeldOnUnhealthyCards, IsWhatPodsRequestOfThem) {
  const auto sick_first = cards({"XID 79", "Healthy", "Lost"});
  const struct {
    const char* what;
    std::vector<kube::Pod> pods;
    const char* held;
  } cases[] = {
      {"no pods", {}, "0/0"},
      {"a share", {annotated_pod({{"30/1000", "0"}})}, "30/1000"},
      {"a share of a healthy card", {annotated_pod({{"30/1000", "1"}})}, "0/0"},
      {"a whole card, whose memory is not requested", {annotated_pod({{"100", "0"}})}, "100/0"},
      {"parts of cards of both kinds", {annotated_pod({{"200/4000", "0,1"}})}, "100/2000"},
      {"containers on two unhealthy cards",
       {annotated_pod({{"30/1000", "0"}, {"20/500", "2"}})},
       "50/1500"},
      {"several pods",
       {annotated_pod({{"30/1000", "0"}}), annotated_pod({{"40/1000", "0"}})},
       "70/2000"},
      {"a finished pod", {annotated_pod({{"30/1000", "0"}}, "Succeeded")}, "0/0"},
      {"a pod that was not annotated", {annotated_pod({{"30/1000", ""}})}, "0/0"},
      {"a card that the node does not have", {annotated_pod({{"30/1000", "7"}})}, "0/0"},
      {"never more than the card",
       {annotated_pod({{"80/1000", "0"}}), annotated_pod({{"80/1000", "0"}})},
       "100/2000"},
  };
  for (const auto& one : cases) EXPECT_EQ(held_text(sick_first, one.pods), one.held) << one.what;
}

TEST(HeldOnUnhealthyCards, CountsInitContainersAsKubernetesDoes) {
  kube::Pod one = annotated_pod({{"30/1000", "0"}});
  kube::Container init = one.containers.front();
  init.name = "i1";
  init.limits[offer_contract().core_resource] = "50";
  one.init_containers.push_back(init);
  one.metadata.annotations[offer_contract().index_key("i1")] = "0";
  EXPECT_EQ(held_text(cards({"XID 79"}), {one}), "50/1000");
}

TEST(HeldOnUnhealthyCards, IsReadFromRecordsToo) {
  const std::vector<Record> records = {held(0, 0, 60), held(0, 60, 60), held(1, 120, 30)};
  const auto all = cards({"XID 79", "Healthy"});
  EXPECT_EQ(held_on_unhealthy(all, records), (Share{Percent(100), MiB()}));
  EXPECT_EQ(held_on_unhealthy(cards({"Healthy", "Healthy"}), records), Share{});
}

TEST(OfferedDevices, AreAHundredPerHealthyCard) {
  EXPECT_EQ(offered_core_ids(cards({"Healthy", "Healthy", "Healthy", "Healthy"}), {}, {}).size(),
            400U);
  EXPECT_EQ(offered_core_ids(cards({"Healthy", "XID 79", "Healthy", "Lost"}), {}, {}).size(), 200U);
  EXPECT_TRUE(offered_core_ids(cards({"MIG"}), {}, {}).empty());
  EXPECT_TRUE(offered_core_ids({}, {}, {}).empty());
}

TEST(OfferedDevices, OfFourV100sAre130040MiB) {
  const auto four = cards({"Healthy", "Healthy", "Healthy", "Healthy"});
  EXPECT_EQ(offered_memory_ids(four, {}).size(), 130'040U);
  EXPECT_EQ(offered(cards({"Healthy", "Lost"}), {}), (Share{kWholeCard, MiB(32'510)}));
}

TEST(OfferedDevices, IncludeWhatIsHeldOnUnhealthyCards) {
  const auto sick = cards({"Healthy", "XID 79"});
  const Share held{Percent(60), MiB(500)};
  EXPECT_EQ(offered_core_ids(sick, {}, held).size(), 160U);
  EXPECT_EQ(offered_memory_ids(sick, held).size(), 33'010U);
}

TEST(OfferedDevices, StayForContainersOnHealthyCards) {
  const std::vector<Record> records = {held(0, 150, 50)};
  const auto ids = offered_core_ids(cards({"Healthy", "XID 79"}), records, {});
  EXPECT_EQ(ids.size(), 100U);
  for (std::int64_t n = 150; n < 200; ++n) EXPECT_TRUE(has(ids, n)) << n;
}

// kubelet rejects a pod on its restart if a device of it is no longer offered.
TEST(OfferedDevices, StayForContainersOnUnhealthyCards) {
  const std::vector<Record> records = {held(1, 140, 60), held(0, 60, 40)};
  const auto ids = offered_core_ids(cards({"Healthy", "XID 79"}), records, {Percent(60), MiB()});
  EXPECT_EQ(ids.size(), 160U);
  for (std::int64_t n = 60; n < 100; ++n) EXPECT_TRUE(has(ids, n)) << n;
  for (std::int64_t n = 140; n < 200; ++n) EXPECT_TRUE(has(ids, n)) << n;
}

TEST(OfferedDevices, StayForContainersThatHaveNotStarted) {
  Record allocated = held(0, 150, 50);
  allocated.owner.reset();
  allocated.cards.clear();
  const auto ids = offered_core_ids(cards({"Healthy", "XID 79"}), {allocated}, {});
  for (std::int64_t n = 150; n < 200; ++n) EXPECT_TRUE(has(ids, n)) << n;
}

TEST(OfferedDevices, ReturnWithTheCard) {
  const std::vector<Record> records = {held(1, 0, 60)};
  const auto all = cards({"Healthy", "Healthy"});
  EXPECT_EQ(offered_core_ids(all, records, {}), offered_core_ids(all, {}, {}));
}

TEST(OfferedDevices, AreAsManyAsTheComputeOfTheCards) {
  auto two = cards({"Healthy", "reserved by profile a"});
  two[0].core = two[1].core = Percent(250);
  EXPECT_EQ(offered_core_ids(two, {}, {}).size(), 250U);
  EXPECT_EQ(offered(two, {Percent(30), MiB(1000)}), (Share{Percent(280), MiB(33'510)}));
  // Its pods hold more than 100 % of it, and no more than all of it.
  EXPECT_EQ(held_text(two, {annotated_pod({{"90/1000", "1"}, {"80/1000", "1"}})}), "170/2000");
  EXPECT_EQ(held_text(two, {annotated_pod({{"90/1000", "1"}, {"90/1000", "1"}, {"90/1000", "1"}})}),
            "250/3000");
}

TEST(OfferedDevices, InUseStayWhenTheComputeOfTheCardsBecomesLess) {
  auto one = cards({"Healthy"});
  const std::vector<Record> records = {held(0, 190, 60), held(0, 700, 90)};
  one[0].core = Percent(150);
  const auto ids = offered_core_ids(one, records, {});
  EXPECT_EQ(ids.size(), 150U);
  for (std::int64_t n = 190; n < 250; ++n) EXPECT_TRUE(has(ids, n)) << n;
  for (std::int64_t n = 700; n < 790; ++n) EXPECT_TRUE(has(ids, n)) << n;
}

TEST(CoreHeld, IsWhatAnnotatedPodsRequestOfTheCard) {
  const std::vector<kube::Pod> pods{annotated_pod({{"30/1000", "0"}, {"20/1000", "1"}}),
                                    annotated_pod({{"100", "0"}}),
                                    annotated_pod({{"50/1000", "0"}}, "Succeeded")};
  EXPECT_EQ(core_held(CardIndex(0), pods, offer_contract()), Percent(130));
  EXPECT_EQ(core_held(CardIndex(1), pods, offer_contract()), Percent(20));
  EXPECT_EQ(core_held(CardIndex(2), pods, offer_contract()), Percent(0));
}

TEST(MemoryList, IsRefusedWhereKubeletWouldDropIt) {
  EXPECT_TRUE(check_memory_list(130'040));
  EXPECT_TRUE(check_memory_list(262'000));
  EXPECT_THAT(check_memory_list(655'360).error().message,
              testing::AllOf(HasSubstr("655360 MiB"), HasSubstr("at most 4194304"),
                             HasSubstr("--memory-resource=node-status")));
}

}  // namespace
}  // namespace mgpu::plugin
