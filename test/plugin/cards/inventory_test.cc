#include "plugin/cards/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/scripted_parts.h"

namespace mgpu::plugin {
namespace {

using test::comes_true;
using test::found_card;
using test::found_cards;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

class InventoryTest : public testing::Test {
 public:
  InventoryTest() { EXPECT_TRUE(set_log_level("off")); }

  void start() {
    inventory_.start();
    EXPECT_TRUE(comes_true([this] { return inventory_.state().read; }));
  }
  void set_cards_and_wait(Result<FoundCards> cards, const std::function<bool()>& condition) {
    cards_->say(std::move(cards));
    EXPECT_TRUE(comes_true(condition));
  }
  // A line for each card: "0 GPU-0 Healthy".
  std::vector<std::string> lines() const { return lines_of(inventory_.state()); }
  static std::vector<std::string> lines_of(const InventoryState& state) {
    std::vector<std::string> lines;
    for (const CardFacts& card : state.cards) {
      lines.push_back(std::to_string(card.index.value()) + " " + card.uuid.str() + " " +
                      card.health);
    }
    return lines;
  }
  KnownCards last_saved() const {
    const std::lock_guard lock(mutex_);
    return saved_.empty() ? KnownCards() : saved_.back();
  }
  void set_problem(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    problem_ = problem;
  }
  void set_released(const std::string& why) {
    const std::lock_guard lock(mutex_);
    released_ = why;
  }
  std::string restart() const {
    const std::lock_guard lock(mutex_);
    return restart_;
  }
  void hold(MiB memory) {
    const std::lock_guard lock(mutex_);
    held_ = memory;
  }
  std::size_t times_saved() const {
    const std::lock_guard lock(mutex_);
    return saved_.size();
  }
  // The number of cards before and after each reported change: "0 -> 2".
  std::vector<std::string> changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

  mutable std::mutex mutex_;
  std::optional<KnownCards> known_ = KnownCards();  // protected by mutex_, as the following
  bool disk_works_ = true;
  MiB held_;
  std::string problem_;   // of GPU-0
  std::string released_;  // why the driver is not used
  std::string restart_;   // why a new process is needed
  std::vector<KnownCards> saved_;
  std::vector<std::string> changes_;
  test::ScriptedCards* cards_ = new test::ScriptedCards(found_cards(2));
  Inventory inventory_{std::unique_ptr<CardSource>(cards_),
                       {.load_known =
                            [this] {
                              const std::lock_guard lock(mutex_);
                              return known_;
                            },
                        .save_known =
                            [this](const KnownCards& known) {
                              const std::lock_guard lock(mutex_);
                              saved_.push_back(known);
                              return disk_works_;
                            },
                        .on_change =
                            [this](const InventoryState& before, const InventoryState& now) {
                              const std::lock_guard lock(mutex_);
                              changes_.push_back(std::to_string(before.cards.size()) + " -> " +
                                                 std::to_string(now.cards.size()) + now.problem);
                            },
                        .now = [] { return "2026-01-02T00:00:00Z"; },
                        .held =
                            [this](const CardUuid&) {
                              const std::lock_guard lock(mutex_);
                              return Share{{}, held_};
                            },
                        .problem_of =
                            [this](const FoundCard& card, const Edits&) {
                              const std::lock_guard lock(mutex_);
                              return card.uuid == CardUuid("GPU-0") ? problem_ : "";
                            },
                        .released =
                            [this] {
                              const std::lock_guard lock(mutex_);
                              return released_;
                            },
                        .on_restart_needed =
                            [this](const std::string& why) {
                              const std::lock_guard lock(mutex_);
                              restart_ = why;
                            }}};
};

TEST_F(InventoryTest, AssignsIndicesInTheOrderOfTheSource) {
  start();
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "1 GPU-1 Healthy"));
  EXPECT_EQ(inventory_.state().problem, "");
  EXPECT_EQ(inventory_.description(), "scripted cards");
}

TEST_F(InventoryTest, AnUnhealthyCardStaysWithItsReason) {
  start();
  FoundCards found = found_cards(2);
  found.cards[1].health = "XID 79";
  set_cards_and_wait(found, [this] { return !inventory_.state().cards[1].healthy(); });
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "1 GPU-1 XID 79"));
  EXPECT_EQ(inventory_.state().cards[1].since, "2026-01-02T00:00:00Z");
}

TEST_F(InventoryTest, ACardWithoutADeviceNodeIsNotOffered) {
  start();
  FoundCards found = found_cards(2);
  found.cards[1].nodes.clear();
  set_cards_and_wait(found, [this] { return !inventory_.state().cards[1].healthy(); });
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "1 GPU-1 no device node"));
}
TEST_F(InventoryTest, ALostCardIsListedAsLostAndKeepsItsIndex) {
  start();
  const auto health_of_first = [this] { return inventory_.state().cards[0].health; };
  set_cards_and_wait(FoundCards{{found_card(1)}, {}}, [&] { return health_of_first() == "Lost"; });
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Lost", "1 GPU-1 Healthy"));
  EXPECT_EQ(inventory_.nodes_of(CardUuid("GPU-0")), std::nullopt);
  set_cards_and_wait(FoundCards{{found_card(1), found_card(0)}, {}},
                     [&] { return health_of_first() == "Healthy"; });
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "1 GPU-1 Healthy"));
}

TEST_F(InventoryTest, ANewCardGetsAnIndexThatWasNeverUsed) {
  start();
  set_cards_and_wait(FoundCards{{found_card(7), found_card(1)}, {}},
                     [this] { return inventory_.state().cards.size() == 3; });
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Lost", "1 GPU-1 Healthy", "2 GPU-7 Healthy"));
}

TEST_F(InventoryTest, KeepsTheIndicesOfAnEarlierProcess) {
  KnownCards known;
  for (const int index : {0, 4}) known[CardIndex(index)] = test::card_facts(index);
  known[CardIndex(4)].uuid = CardUuid("GPU-1");
  known_ = known;
  start();
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "4 GPU-1 Healthy"));
}

TEST_F(InventoryTest, ReadsNothingBeforeTheKnownCardsAreLoaded) {
  known_ = std::nullopt;
  inventory_.start();
  inventory_.stop();
  EXPECT_EQ(cards_->reads(), 0);
  EXPECT_FALSE(inventory_.state().read);
}

TEST_F(InventoryTest, SavesAnIndexBeforeItIsPublished) {
  start();
  ASSERT_EQ(times_saved(), 1U);
  EXPECT_EQ(last_saved().at(CardIndex(1)).uuid, CardUuid("GPU-1"));
}

TEST_F(InventoryTest, SavesOnlyAfterChanges) {
  start();
  const int reads = cards_->reads();
  set_cards_and_wait(found_cards(2), [&] { return cards_->reads() > reads; });
  set_cards_and_wait(found_cards(3), [this] { return inventory_.state().cards.size() == 3; });
  EXPECT_EQ(times_saved(), 2U);
  EXPECT_THAT(changes(), ElementsAre("0 -> 2", "2 -> 3"));
}

TEST_F(InventoryTest, SavesAgainAfterAFailure) {
  disk_works_ = false;
  start();
  {
    const std::lock_guard lock(mutex_);
    disk_works_ = true;
  }
  set_cards_and_wait(found_cards(2), [this] { return times_saved() == 2; });
  const int reads = cards_->reads();
  set_cards_and_wait(found_cards(2), [&] { return cards_->reads() > reads; });
  EXPECT_EQ(times_saved(), 2U);
}

TEST_F(InventoryTest, KeepsTheLastStateWhileTheSourceFails) {
  start();
  set_cards_and_wait(error("NVML: timeout"),
                     [this] { return !inventory_.state().problem.empty(); });
  EXPECT_EQ(inventory_.state().problem, "NVML: timeout");
  EXPECT_THAT(lines(), ElementsAre("0 GPU-0 Healthy", "1 GPU-1 Healthy"));
  EXPECT_TRUE(inventory_.state().read);
  set_cards_and_wait(found_cards(2), [this] { return inventory_.state().problem.empty(); });
  EXPECT_THAT(changes(), ElementsAre("0 -> 2", "2 -> 2NVML: timeout", "2 -> 2"));
}

TEST_F(InventoryTest, IsNotReadUntilTheSourceSucceeds) {
  cards_->say(error("no driver"));
  inventory_.start();
  EXPECT_TRUE(comes_true([this] { return inventory_.state().problem == "no driver"; }));
  EXPECT_FALSE(inventory_.state().read);
  set_cards_and_wait(found_cards(1), [this] { return inventory_.state().read; });
}

TEST_F(InventoryTest, ReportsTheCardThatIsLeftOut) {
  FoundCards found = found_cards(2);
  found.cards[0].memory = MiB(0);
  cards_->say(found);
  start();
  EXPECT_THAT(inventory_.state().problem, testing::HasSubstr("GPU-0"));
  EXPECT_THAT(lines(), ElementsAre("0 GPU-1 Healthy"));
}

TEST_F(InventoryTest, ACardWithAProblemIsNotOffered) {
  start();
  const auto health = [this] { return inventory_.state().cards[0].health; };
  set_problem("MPS does not run: it ended");
  set_cards_and_wait(found_cards(2), [&] { return health() == "MPS does not run: it ended"; });
  EXPECT_EQ(inventory_.state().cards[1].health, kHealthy);
  EXPECT_EQ(inventory_.state().found.cards[0].health, kHealthy) << "as its source finds it";
  FoundCards lost = found_cards(2);
  lost.cards[0].health = "XID 79";
  set_cards_and_wait(lost, [&] { return health() == "XID 79"; });
  set_problem("");
  set_cards_and_wait(found_cards(2), [&] { return health() == kHealthy; });
}

TEST_F(InventoryTest, OffersNoCardWhileTheDriverIsReleased) {
  start();
  const auto health = [this] { return inventory_.state().cards[1].health; };
  set_released("the node has a label");
  set_cards_and_wait(found_cards(2), [&] { return health() == "the node has a label"; });
  EXPECT_TRUE(comes_true([this] { return cards_->released() > 1; }));
  const int reads = cards_->reads();
  EXPECT_TRUE(comes_true([this, before = cards_->released()] {
    cards_->interrupt();
    return cards_->released() > before + 2;
  }));
  EXPECT_EQ(cards_->reads(), reads) << "the driver is not used";
  EXPECT_THAT(inventory_.use(), IsEmpty());
  set_released("");
  set_cards_and_wait(found_cards(2), [&] { return health() == kHealthy; });
}

// kubelet does not start pods again that exceed the capacity of the node.
TEST_F(InventoryTest, ACardDoesNotHaveLessMemoryThanContainersHold) {
  hold(MiB(30'000));
  start();
  FoundCards smaller = found_cards(1);
  const MiB before = smaller.cards[0].memory;
  const auto memory = [this] { return inventory_.state().cards[0].memory; };
  ASSERT_GT(before, MiB(30'000));
  smaller.cards[0].memory = MiB(20'000);
  set_cards_and_wait(smaller, [&] { return memory() == MiB(30'000); });
  hold(MiB(99'000));
  smaller.cards[0].memory = MiB(19'000);
  set_cards_and_wait(smaller,
                     [&, reads = cards_->reads()] { return cards_->reads() >= reads + 2; });
  EXPECT_EQ(memory(), MiB(30'000));
  hold(MiB());
  smaller.cards[0].memory = MiB(18'000);
  set_cards_and_wait(smaller, [&] { return memory() == MiB(18'000); });
}

TEST_F(InventoryTest, ReturnsTheNodesOfACard) {
  start();
  EXPECT_THAT(inventory_.nodes_of(CardUuid("GPU-1")),
              Optional(ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"})));
  EXPECT_EQ(inventory_.nodes_of(CardUuid("GPU-9")), std::nullopt);
}

TEST_F(InventoryTest, ReturnsTheUseOfTheLastRead) {
  start();
  EXPECT_THAT(inventory_.use(), IsEmpty());
  cards_->say_use({{CardUuid("GPU-1"), MiB(500), 12.5, {{4711, MiB(500), 12.5}}}});
  ASSERT_TRUE(comes_true([this] { return !inventory_.use().empty(); }));
  EXPECT_EQ(inventory_.use()[0].uuid, CardUuid("GPU-1"));
  EXPECT_THAT(changes(), ElementsAre("0 -> 2")) << "use is not a change of the cards";
}

TEST_F(InventoryTest, CallsTheSourceFromOneThread) {
  start();
  const int reads = cards_->reads();
  cards_->interrupt();
  for (int i = 0; i < 5; ++i) static_cast<void>(inventory_.use());
  ASSERT_TRUE(comes_true([&] { return cards_->reads() > reads; }));
  EXPECT_EQ(cards_->threads(), 1U);
}

TEST_F(InventoryTest, ReportsNothingAfterStop) {
  start();
  inventory_.stop();
  const auto before = changes();
  cards_->say(found_cards(4));
  inventory_.stop();
  EXPECT_EQ(changes(), before);
}

TEST_F(InventoryTest, ReportsThatANewProcessIsNeeded) {
  start();
  cards_->say_restart("the driver was replaced");
  set_cards_and_wait(error("no cards"), [this] { return !restart().empty(); });
  EXPECT_EQ(restart(), "the driver was replaced");
}

TEST_F(InventoryTest, NeedsNoNewProcessWhileTheDriverIsReleased) {
  start();
  cards_->say_restart("the driver was replaced");
  set_released("it is replaced");
  set_cards_and_wait(error("no cards"), [this] { return cards_->released() > 1; });
  EXPECT_EQ(restart(), "");
}

}  // namespace
}  // namespace mgpu::plugin
