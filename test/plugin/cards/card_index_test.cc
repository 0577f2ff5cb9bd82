#include "plugin/cards/card_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/limits.h"

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kEarly[] = "2026-01-01T00:00:00Z";
constexpr char kLater[] = "2026-01-02T00:00:00Z";

FoundCard found(const std::string& uuid, std::optional<int> index = {},
                const std::string& health = "Healthy") {
  FoundCard card{.uuid = CardUuid(uuid), .model = "V100", .memory = MiB(32510)};
  card.health = health;
  if (index) card.index = CardIndex(*index);
  return card;
}

// "0=GPU-a 1=GPU-b(Lost)"
std::string shown(const std::vector<CardFacts>& cards) {
  std::string text;
  for (const CardFacts& card : cards) {
    if (!text.empty()) text += " ";
    text += std::to_string(card.index.value()) + "=" + card.uuid.str();
    if (!card.healthy()) text += "(" + card.health + ")";
  }
  return text;
}

TEST(CardIndex, NumbersNewCardsInOrder) {
  const IndexedCards indexed = index_cards({}, {found("GPU-b"), found("GPU-a")}, kEarly);
  EXPECT_EQ(shown(indexed.cards), "0=GPU-b 1=GPU-a");
  EXPECT_THAT(indexed.problems, IsEmpty());
  EXPECT_EQ(indexed.cards[0],
            (CardFacts{CardIndex(0), CardUuid("GPU-b"), "V100", MiB(32510), "Healthy", kEarly}));
}

TEST(CardIndex, KeepsIndicesWhenCardsAreFoundInAnotherOrder) {
  const auto first = index_cards({}, {found("GPU-a"), found("GPU-b")}, kEarly);
  const auto second = index_cards(first.known, {found("GPU-b"), found("GPU-a")}, kLater);
  EXPECT_EQ(second.cards, first.cards);
  EXPECT_EQ(second.known, first.known);
}

// The order of the indices is that of the annotation, which is not that of the driver.
TEST(CardIndex, GivesTheLinksInTheOrderOfTheIndices) {
  FoundCards cards;
  cards.cards = {found("GPU-b"), found("GPU-new"), found("GPU-a")};
  cards.cards[2].numa = 1;
  cards.links = CardLinks(3);
  cards.links.set(0, 1, nvlinks(1));
  cards.links.set(0, 2, nvlinks(2));
  cards.links.set(1, 2, nvlinks(3));
  const auto known = index_cards({}, {found("GPU-a"), found("GPU-lost"), found("GPU-b")}, kEarly);
  const auto now = index_cards(known.known, cards.cards, kLater);
  ASSERT_EQ(shown(now.cards), "0=GPU-a 1=GPU-lost(Lost) 2=GPU-b 3=GPU-new");
  EXPECT_EQ(links_of(now.cards, cards).text(), "-2-3-1");
  EXPECT_EQ(now.cards[0].numa, 1);
  // What cannot be identified has no links.
  cards.cards.push_back(
      {.uuid = CardUuid("NVML-3"), .model = {}, .memory = {}, .unreadable = true});
  EXPECT_EQ(links_of(now.cards, cards).text(), "-2-3-1");
  cards.links = {};
  EXPECT_TRUE(links_of(now.cards, cards).empty());
}

TEST(CardIndex, NeverReassignsTheIndexOfALostCard) {
  const auto first = index_cards({}, {found("GPU-a"), found("GPU-b")}, kEarly);
  const auto replaced = index_cards(first.known, {found("GPU-c"), found("GPU-b")}, kLater);
  EXPECT_EQ(shown(replaced.cards), "0=GPU-a(Lost) 1=GPU-b 2=GPU-c");
  const auto back =
      index_cards(replaced.known, {found("GPU-a"), found("GPU-b"), found("GPU-c")}, kLater);
  EXPECT_EQ(shown(back.cards), "0=GPU-a 1=GPU-b 2=GPU-c");
}

TEST(CardIndex, SaysSinceWhenHealthIsUnchanged) {
  const auto first = index_cards({}, {found("GPU-a"), found("GPU-b")}, kEarly);
  const auto unhealthy =
      index_cards(first.known, {found("GPU-a", {}, "XID 79"), found("GPU-b")}, kLater);
  EXPECT_EQ(unhealthy.cards[0].health, "XID 79");
  EXPECT_EQ(unhealthy.cards[0].since, kLater);
  EXPECT_EQ(unhealthy.cards[1].since, kEarly);
  const auto still =
      index_cards(unhealthy.known, {found("GPU-a", {}, "XID 79")}, "2026-01-03T00:00:00Z");
  EXPECT_EQ(still.cards[0].since, kLater);
  EXPECT_EQ(still.cards[1].health, kLost);
  EXPECT_EQ(still.cards[1].since, "2026-01-03T00:00:00Z");
}

TEST(CardIndex, KeepsFactsThatAnUnhealthyCardDoesNotReport) {
  const auto first = index_cards({}, {found("GPU-a")}, kEarly);
  const FoundCard incomplete{
      .uuid = CardUuid("GPU-a"), .model = "", .memory = MiB(), .health = "lost"};
  const auto second = index_cards(first.known, {incomplete}, kLater);
  EXPECT_EQ(second.cards[0].model, "V100");
  EXPECT_EQ(second.cards[0].memory, MiB(32510));
  EXPECT_EQ(second.cards[0].health, "lost");
}

TEST(CardIndex, UpdatesTheFactsOfAKnownCard) {
  const auto first = index_cards({}, {found("GPU-a")}, kEarly);
  FoundCard other = found("GPU-a");
  other.memory = MiB(16000);
  other.model = "T4";
  const auto second = index_cards(first.known, {other}, kLater);
  EXPECT_EQ(second.cards[0].memory, MiB(16000));
  EXPECT_EQ(second.known.at(CardIndex(0)).model, "T4");
  EXPECT_EQ(second.cards[0].since, kEarly);
}

TEST(CardIndex, AssignsTheRequestedIndex) {
  const auto indexed =
      index_cards({}, {found("GPU-a"), found("GPU-b", 0), found("GPU-c", 7)}, kEarly);
  EXPECT_EQ(shown(indexed.cards), "0=GPU-b 1=GPU-a 7=GPU-c");
}

struct Refusal {
  std::string name;
  std::vector<FoundCard> found;
  std::string cards;
  std::string problem;
};

TEST(CardIndex, ReportsCardsLeftOutOrWithAnotherIndex) {
  const KnownCards known = index_cards({}, {found("GPU-a", 0)}, kEarly).known;
  FoundCard incomplete = found("GPU-m");
  incomplete.memory = MiB();
  const Refusal refusals[] = {
      {"index in use",
       {found("GPU-a"), found("GPU-b", 0)},
       "0=GPU-a",
       "card \"GPU-b\" is left out: index 0 belongs to card \"GPU-a\" permanently"},
      {"index of a lost card",
       {found("GPU-b", 0)},
       "0=GPU-a(Lost)",
       "card \"GPU-b\" is left out: index 0 belongs to card \"GPU-a\" permanently"},
      {"another index",
       {found("GPU-a", 3)},
       "0=GPU-a",
       "card \"GPU-a\" requests index 3 and keeps index 0, its own"},
      {"twice", {found("GPU-a"), found("GPU-a")}, "0=GPU-a", "card \"GPU-a\" was found twice"},
      {"memory",
       {found("GPU-a"), incomplete},
       "0=GPU-a",
       "card \"GPU-m\" is left out: its memory is not known"},
  };
  for (const Refusal& refusal : refusals) {
    const auto indexed = index_cards(known, refusal.found, kLater);
    EXPECT_EQ(shown(indexed.cards), refusal.cards) << refusal.name;
    EXPECT_THAT(indexed.problems, ElementsAre(refusal.problem)) << refusal.name;
  }
}

TEST(CardIndex, LeavesOutCardsOverTheLimit) {
  std::vector<FoundCard> cards;
  for (std::size_t i = 0; i <= kCardsPerNodeMax; ++i) {
    cards.push_back(found("GPU-" + std::to_string(i)));
  }
  const auto indexed = index_cards({}, cards, kEarly);
  EXPECT_THAT(indexed.cards, SizeIs(kCardsPerNodeMax));
  EXPECT_THAT(indexed.problems, ElementsAre(HasSubstr("a node has at most 64 cards")));
}

TEST(CardIndex, LeavesOutTheCardsLostForLongest) {
  KnownCards known = index_cards({}, {found("GPU-old")}, kEarly).known;
  known = index_cards(known, {}, kEarly).known;
  std::vector<FoundCard> cards;
  for (std::size_t i = 1; i < kCardsPerNodeMax; ++i) {
    cards.push_back(found("GPU-" + std::to_string(i)));
  }
  known = index_cards(known, cards, kEarly).known;
  cards.front() = found("GPU-new");
  const auto indexed = index_cards(known, cards, kLater);
  EXPECT_THAT(indexed.known, SizeIs(kCardsPerNodeMax + 1));
  EXPECT_THAT(indexed.cards, SizeIs(kCardsPerNodeMax));
  EXPECT_EQ(indexed.cards.front().uuid, CardUuid("GPU-1"));
  EXPECT_EQ(indexed.cards.front().health, kLost);
}

TEST(CardIndex, ReportsThatNoIndexIsLeft) {
  KnownCards known;
  for (int i = 0; i <= kCardIndexMax; ++i) {
    known[CardIndex(i)] = {
        CardIndex(i), CardUuid("GPU-" + std::to_string(i)), "V100", MiB(1), std::string(kLost),
        kEarly};
  }
  const auto indexed = index_cards(known, {found("GPU-new")}, kLater);
  EXPECT_THAT(indexed.problems, ElementsAre(HasSubstr("all indices up to 1023")));
  EXPECT_THAT(indexed.known, SizeIs(kCardIndexMax + 1));
}

// The devices of a partition that is changed every hour.
IndexedCards partitioned(const KnownCards& known, int hour,
                         const std::function<bool(const CardUuid&)>& in_use, int minute = 0) {
  std::vector<FoundCard> cards = {found("GPU-a", {}, "MIG")};
  for (int i = 0; i < 7; ++i)
    cards.push_back(found("MIG-" + std::to_string(hour) + "-" + std::to_string(i)));
  const std::string now = "2026-01-0" + std::to_string(1 + hour / 24) + "T" +
                          (hour % 24 < 10 ? "0" : "") + std::to_string(hour % 24) + ":" +
                          (minute < 10 ? "0" : "") + std::to_string(minute) + ":00Z";
  return index_cards(known, cards, now, in_use);
}

TEST(CardIndex, ForgetsMigDevicesThatAreGone) {
  const auto none_in_use = [](const CardUuid&) { return false; };
  IndexedCards indexed;
  for (int hour = 0; hour < 200; ++hour) {
    indexed = partitioned(indexed.known, hour, none_in_use);
    ASSERT_THAT(indexed.problems, IsEmpty());
    ASSERT_THAT(indexed.known, SizeIs(testing::Le(1U + 7U + 7U))) << hour;
    // Those of the hour before are listed for some minutes, and their indices are not used again.
    ASSERT_THAT(indexed.cards, SizeIs(hour == 0 ? 8 : 15)) << hour;
    indexed = partitioned(indexed.known, hour, none_in_use, 9);
    ASSERT_THAT(indexed.cards, SizeIs(hour == 0 ? 8 : 15)) << hour;
    indexed = partitioned(indexed.known, hour, none_in_use, 10);
    ASSERT_THAT(indexed.cards, SizeIs(8)) << hour;
  }
  EXPECT_EQ(indexed.cards.front().uuid, CardUuid("GPU-a"));
}

TEST(CardIndex, KeepsAMigDeviceThatIsGoneWhileAPodHasIt) {
  bool has_it = true;
  const auto in_use = [&](const CardUuid& card) { return has_it && card == CardUuid("MIG-0-3"); };
  auto indexed = partitioned({}, 0, in_use);
  indexed = partitioned(indexed.known, 1, in_use);
  indexed = partitioned(indexed.known, 2, in_use, 30);
  indexed = partitioned(indexed.known, 2, in_use, 50);
  EXPECT_THAT(indexed.cards, SizeIs(1 + 1 + 7));
  EXPECT_EQ(indexed.known.at(CardIndex(4)).uuid, CardUuid("MIG-0-3"));
  EXPECT_EQ(indexed.known.at(CardIndex(4)).health, kLost);
  has_it = false;
  indexed = partitioned(indexed.known, 2, in_use, 51);
  EXPECT_FALSE(indexed.known.contains(CardIndex(4)));
}

// A card that is gone may be put back, and what is not known to be unused is kept.
TEST(CardIndex, ForgetsNoCardAndNothingWithoutKnowingItsUse) {
  const auto first = index_cards({}, {found("GPU-a"), found("MIG-a")}, kEarly);
  const auto lost = index_cards(first.known, {}, kEarly);
  EXPECT_EQ(shown(index_cards(lost.known, {}, kLater).cards), "0=GPU-a(Lost) 1=MIG-a(Lost)");
  const auto none_in_use = [](const CardUuid&) { return false; };
  EXPECT_EQ(shown(index_cards(lost.known, {}, kLater, none_in_use).cards), "0=GPU-a(Lost)");
  KnownCards unknown_time = lost.known;
  unknown_time[CardIndex(1)].since = "";
  EXPECT_EQ(shown(index_cards(unknown_time, {}, kLater, none_in_use).cards),
            "0=GPU-a(Lost) 1=MIG-a(Lost)");
}

TEST(CardIndex, ProducesCardsThatTheContractCanHold) {
  const auto first = index_cards({}, {found("GPU-a"), found("GPU-b", {}, "MIG")}, kEarly);
  const auto lost = index_cards(first.known, {found("GPU-b")}, kLater);
  const auto read = parse_node_cards(format_node_cards(lost.cards));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, lost.cards);
}

TEST(CardIndex, ACardThatCannotBeReadIsAProblemUnlessItIsTheLostOne) {
  const FoundCard good{.uuid = CardUuid("GPU-a"), .model = "T4", .memory = MiB(100)};
  const FoundCard dead{.uuid = CardUuid("NVML-1"),
                       .model = {},
                       .memory = {},
                       .health = "cannot be read: GPU is lost (15)",
                       .unreadable = true};
  const IndexedCards first = index_cards({}, {good, dead}, "now");
  EXPECT_EQ(first.cards.size(), 1U);
  EXPECT_EQ(first.problems, std::vector<std::string>{
                                "the driver counts card \"NVML-1\", which cannot be read: GPU is "
                                "lost (15)"});
  KnownCards known = first.known;
  known[CardIndex(1)] = {CardIndex(1), CardUuid("GPU-b"), "T4", MiB(100), "Healthy", "before"};
  const IndexedCards later = index_cards(known, {good, dead}, "now");
  EXPECT_TRUE(later.problems.empty());
  EXPECT_EQ(later.cards.at(1).health, kLost);
}

}  // namespace
}  // namespace mgpu::plugin
