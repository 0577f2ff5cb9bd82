// identify() for every combination of evidence; device sets, offers, ids and edits on random input,
// compared with simple computations.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <regex>
#include <set>

#include "plugin/allocation/edits.h"
#include "plugin/allocation/identify.h"
#include "plugin/allocation/limits.h"
#include "plugin/allocation/offer.h"

namespace mgpu::plugin {
namespace {

using Ids = std::set<std::string>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : random_(seed) {}
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool one_in(int chances) { return number(chances) == 0; }

  std::vector<std::string> ids(int most, int below) {
    std::vector<std::string> all(static_cast<std::size_t>(1 + number(most)));
    for (std::string& id : all) id = core_device_id(number(below));
    return all;
  }

 private:
  std::mt19937 random_;
};

Record record_of(const std::vector<std::string>& ids, std::string_view nonce = "aa") {
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.id = allocation_id(record.devices, nonce);
  return record;
}

// --- identify ------------------------------------------------------------------------------------

Record bound_or_not(const char* nonce, bool bound) {
  Record record = record_of({"c0", "c1"}, nonce);
  if (bound) record.owner = Owner{{"a", "x"}, PodUid("u1"), std::string("of ") + nonce};
  return record;
}

std::vector<std::vector<Record>> some_records() {
  return {{},
          {bound_or_not("aa", false)},
          {bound_or_not("aa", true)},
          {bound_or_not("aa", false), bound_or_not("bb", true)},
          {bound_or_not("aa", true), bound_or_not("bb", true)}};
}

std::vector<std::optional<std::vector<ListedContainer>>> some_lists() {
  const ListedContainer one{{"a", "x"}, "listed"};
  const ListedContainer other{{"a", "y"}, "listed"};
  using List = std::vector<ListedContainer>;
  return {std::nullopt, List{}, List{one}, List{one, other}};
}

std::vector<std::optional<std::vector<CheckpointedContainer>>> some_checkpoints() {
  const CheckpointedContainer one{PodUid("u1"), "first", record_of({"c0", "c1"}, "aa").id};
  const CheckpointedContainer same_pod{PodUid("u1"), "second", record_of({"c0", "c1"}, "bb").id};
  const CheckpointedContainer other_pod{PodUid("u2"), "first", record_of({"c0", "c1"}, "bb").id};
  const CheckpointedContainer foreign{PodUid("u1"), "first", AllocationId()};
  using List = std::vector<CheckpointedContainer>;
  return {std::nullopt,        List{},        List{one},
          List{one, same_pod}, List{foreign}, List{one, other_pod},
          List{one, foreign}};
}

// The table of identify.h, row by row. Empty: an error.
std::vector<Identity> expected_identities(const Evidence& evidence) {
  const auto& checkpoint = evidence.checkpointed;
  if (checkpoint && !checkpoint->empty()) {
    std::vector<Identity> all;
    for (const CheckpointedContainer& entry : *checkpoint) {
      const bool of_one_pod = entry.uid == checkpoint->front().uid;
      if (entry.allocation.empty() || !of_one_pod) return {};
      all.push_back({entry.allocation, std::nullopt, entry.uid, entry.container});
    }
    return all;
  }
  if (evidence.records.size() != 1) return {};
  const Record& record = evidence.records.front();
  const std::size_t listed = evidence.listed ? evidence.listed->size() : 0;
  if (listed == 1)
    return {
        {record.id, evidence.listed->front().pod, PodUid(), evidence.listed->front().container}};
  if (listed == 0 && record.bound())
    return {{record.id, record.owner->pod, record.owner->uid, record.owner->container}};
  return {};
}

TEST(IdentifyProperty, ImplementsItsTable) {
  std::size_t known = 0;
  std::size_t errors = 0;
  for (const auto& records : some_records()) {
    for (const auto& listed : some_lists()) {
      for (const auto& checkpointed : some_checkpoints()) {
        const Evidence evidence{records, listed, checkpointed};
        const auto expected = expected_identities(evidence);
        const auto found = identify(evidence);
        ASSERT_EQ(found.has_value(), !expected.empty());
        ++(found ? known : errors);
        if (!found) {
          EXPECT_FALSE(found.error().message.empty());
          continue;
        }
        EXPECT_EQ(*found, expected);
        for (const Identity& one : *found) {
          EXPECT_TRUE(valid(one.allocation));
          EXPECT_EQ(one.uid, found->front().uid) << "several identities are of one pod";
          EXPECT_EQ(one.pod, found->front().pod);
          EXPECT_FALSE(one.container.empty());
        }
      }
    }
  }
  EXPECT_EQ(known + errors, 5U * 4 * 7);
  EXPECT_GT(known, 40U);
  EXPECT_GT(errors, 40U);
}

// --- device sets and ids -------------------------------------------------------------------------

TEST(DeviceSetProperty, IsIndependentOfTheOrderOfIds) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    auto ids = random.ids(12, 20);
    const DeviceSet set = DeviceSet::of(ids).value();
    const Ids expected(ids.begin(), ids.end());
    ASSERT_TRUE(std::ranges::equal(set.ids(), expected));
    ASSERT_EQ(set.size(), std::ssize(expected));
    std::ranges::reverse(ids);
    std::ranges::rotate(ids, ids.begin() + random.number(static_cast<int>(ids.size())));
    ASSERT_EQ(DeviceSet::of(ids).value(), set);
    ASSERT_EQ(DeviceSet::of(set.ids()).value(), set) << "a set of its own ids is the same";
  }
}

TEST(DeviceSetProperty, HasAHashOfItsOwn) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const auto a = DeviceSet::of(random.ids(6, 20)).value();
    const auto b = DeviceSet::of(random.ids(6, 20)).value();
    ASSERT_EQ(a.hash() == b.hash(), a == b);
  }
}

TEST(MemoryListProperty, HasTheSizeOfItsIds) {
  for (std::int64_t count = 0; count < 9'000; count += count < 70 ? 1 : 613) {
    std::size_t bytes = 0;
    for (std::int64_t n = 0; n < count; ++n) bytes += 13 + memory_device_id(n).size();
    ASSERT_EQ(memory_list_bytes(count), bytes) << count;
  }
}

TEST(AllocationIdProperty, AreValidExactlyInTheirForm) {
  const std::regex form("[0-9a-z]{16}-[0-9a-z]{1,16}");
  constexpr std::string_view kSome = "09azAZ-/._ ";
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    std::string text = record_of(random.ids(3, 9), "n0nce").id.str();
    ASSERT_TRUE(valid(AllocationId(text)));
    const auto at = static_cast<std::size_t>(random.number(static_cast<int>(text.size())));
    const char letter =
        kSome[static_cast<std::size_t>(random.number(static_cast<int>(kSome.size())))];
    random.one_in(2) ? text.insert(at, 1, letter) : text.replace(at, 1, 1, letter);
    if (random.one_in(4)) text.resize(at);
    ASSERT_EQ(valid(AllocationId(text)), std::regex_match(text, form)) << text;
  }
}

// --- offers --------------------------------------------------------------------------------------

struct Offer {
  std::vector<CardFacts> cards;
  std::vector<Record> records;
};

Offer offer_of(std::uint32_t seed) {
  Random random(seed);
  Offer offer;
  const int cards = random.number(5);
  for (int i = 0; i < cards; ++i)
    offer.cards.push_back({.index = CardIndex(i),
                           .uuid = CardUuid("GPU-" + std::to_string(i)),
                           .model = "V100",
                           .memory = MiB(10 + random.number(90)),
                           .health = random.one_in(3) ? "Lost" : std::string(kHealthy)});
  std::vector<int> order(static_cast<std::size_t>(10 * cards));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  // Each record has ten ids, on a card that has room for them.
  for (std::size_t i = 0; i < order.size() && !random.one_in(8); ++i) {
    std::vector<std::string> ids;
    for (int n = 0; n < 10; ++n) ids.push_back(core_device_id(10 * order[i] + n));
    Record record = record_of(ids);
    if (!random.one_in(5)) {
      const int card = static_cast<int>(i) / 10;
      record.owner = Owner{{"a", "x"}, PodUid("u"), "app"};
      record.cards = {
          {CardIndex(card), CardUuid("GPU-" + std::to_string(card)), {Percent(10), {}}}};
    }
    offer.records.push_back(std::move(record));
  }
  return offer;
}

// The ids on healthy cards, or on unhealthy ones.
Ids held(const Offer& offer, bool on_healthy) {
  Ids ids;
  for (const Record& record : offer.records) {
    const bool unhealthy = std::ranges::any_of(record.cards, [&](const CardGrant& grant) {
      return !offer.cards[static_cast<std::size_t>(grant.index.value())].healthy();
    });
    if (unhealthy != on_healthy)
      ids.insert(record.devices.ids().begin(), record.devices.ids().end());
  }
  return ids;
}

std::size_t common(const Ids& a, const Ids& b) {
  std::vector<std::string> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.size();
}

TEST(OfferProperty, WithdrawsFreeIdsFirst) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Offer offer = offer_of(seed);
    const Share on_unhealthy = held_on_unhealthy(offer.cards, offer.records);
    const auto chosen = offered_core_ids(offer.cards, offer.records, on_unhealthy);
    const Ids ids(chosen.begin(), chosen.end());
    const auto healthy = static_cast<std::size_t>(healthy_cards(offer.cards));
    const Ids kept = held(offer, true);
    const Ids unhealthy = held(offer, false);
    ASSERT_EQ(ids.size(), chosen.size()) << "none twice, seed " << seed;
    ASSERT_EQ(ids.size(), 100 * healthy + unhealthy.size()) << "seed " << seed;
    ASSERT_EQ(common(ids, kept), std::min(kept.size(), ids.size())) << "seed " << seed;
    // Ids on unhealthy cards come before free ones.
    const std::size_t left = ids.size() - common(ids, kept);
    ASSERT_EQ(common(ids, unhealthy), std::min(left, unhealthy.size())) << "seed " << seed;
    const std::size_t all = 100 * offer.cards.size();
    ASSERT_TRUE(std::ranges::all_of(
        ids,
        [&](const std::string& id) { return id.front() == 'c' && std::stoul(id.substr(1)) < all; }))
        << "seed " << seed;
  }
}

TEST(OfferProperty, HasOneMemoryIdForEachMiBOffered) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const Offer offer = offer_of(seed);
    const Share on_unhealthy{{}, MiB(seed)};
    const auto ids = offered_memory_ids(offer.cards, on_unhealthy);
    std::int64_t mib = seed;
    for (const CardFacts& card : offer.cards) mib += card.healthy() ? card.memory.value() : 0;
    ASSERT_EQ(std::ssize(ids), mib);
    ASSERT_EQ(Ids(ids.begin(), ids.end()).size(), ids.size());
    ASSERT_TRUE(check_memory_list(mib));
  }
}

TEST(OfferProperty, RefusesAMemoryListExactlyOverTheLimit) {
  std::int64_t fits = 0;
  for (std::int64_t step = std::int64_t{1} << 20; step > 0; step /= 2)
    if (memory_list_bytes(fits + step) <= kDeviceListBytesMax) fits += step;
  EXPECT_TRUE(check_memory_list(fits));
  EXPECT_FALSE(check_memory_list(fits + 1));
}

// --- edits ---------------------------------------------------------------------------------------

TEST(EditsProperty, TheEnvironmentMatchesTheRecord) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Record record = record_of(random.ids(30, 400));
    record.owner = Owner{{"a", "x"}, PodUid("u"), "app"};
    std::int64_t memory = 0;
    for (int index = random.number(3); index < 12; index += 1 + random.number(6)) {
      const std::int64_t mib = random.number(40'000);
      memory += mib;
      record.cards.push_back(
          {CardIndex(index), CardUuid("GPU-" + std::to_string(7 * index)), {Percent(1), MiB(mib)}});
    }
    const Environment environment = container_edits(record, {}).environment;
    std::vector<CardIndex> indices;
    std::string uuids;
    for (const CardGrant& card : record.cards) {
      indices.push_back(card.index);
      uuids += (uuids.empty() ? "" : ",") + card.uuid.str();
    }
    ASSERT_EQ(parse_card_indices(environment.at("MGPU_CARDS")).value(), indices);
    ASSERT_EQ(environment.at("MGPU_CARD_UUIDS"), uuids);
    ASSERT_EQ(environment.at("MGPU_MEMORY_MIB"), std::to_string(memory));
    ASSERT_EQ(environment.at("MGPU_CORE_PERCENT"), std::to_string(record.devices.size()));
    ASSERT_EQ(environment.at("MGPU_ALLOCATION"), record.id.str());
    // PreStart keeps the variables of Allocate.
    for (const auto& [name, value] : environment_of(record)) ASSERT_EQ(environment.at(name), value);
    ASSERT_EQ(environment.size(),
              environment_of(record).size() + environment_of_cards(record).size());
  }
}

}  // namespace
}  // namespace mgpu::plugin
