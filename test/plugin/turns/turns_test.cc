// The rules of turns, one by one. test/plugin/turns/model_test.cc has what they add up to.
#include "plugin/turns/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plugin/share/launch_window.h"

namespace mgpu::plugin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr CardActivity kNothing{};
constexpr CardActivity kWorks{.worked = true, .works = true};
constexpr CardActivity kWaits{.waits = true};
constexpr CardActivity kBoth{.worked = true, .works = true, .waits = true};

class Card {
 public:
  explicit Card(TurnRule rule, double first = 0.7, double second = 0.3)
      : turns_(TurnOptions{.rule = rule}) {
    turns_.add(1, first);
    turns_.add(2, second);
  }
  // After so much time.
  void look(Nanoseconds after, CardActivity first, CardActivity second) {
    now_ += after;
    last_ = turns_.look(now_, {{1, first}, {2, second}});
  }
  Turn first() const { return last_.turns.at(1); }
  Turn second() const { return last_.turns.at(2); }
  CardTurns& turns() { return turns_; }
  Nanoseconds now() const { return now_; }

 private:
  CardTurns turns_;
  Nanoseconds now_ = seconds(5);
  CardTurns::Look last_;
};

TEST(CardTurns, GiveTheCardToWhoWaits) {
  Card card(TurnRule::kBurst);
  card.look({}, kNothing, kNothing);
  EXPECT_EQ(card.first(), Turn::kWait);
  EXPECT_EQ(card.second(), Turn::kWait);
  card.look(milliseconds(50), kNothing, kWaits);
  EXPECT_EQ(card.second(), Turn::kAlone) << "nobody has used the card for a while";
  card.look(milliseconds(50), kNothing, kWorks);
  EXPECT_EQ(card.second(), Turn::kAlone) << "and nobody else wants it";
}

TEST(CardTurns, WaitForTheWorkOfTheLastOne) {
  Card card(TurnRule::kBurst);
  card.look({}, kWaits, kNothing);
  card.look(milliseconds(1), kWorks, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun) << "somebody waits, but has not waited long";
  card.look(milliseconds(20), kWorks, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait) << "it had its turn";
  EXPECT_EQ(card.second(), Turn::kWait) << "but its work is still on the card";
  card.look(microseconds(100), kBoth, kWaits);
  EXPECT_EQ(card.second(), Turn::kWait);
  card.look(microseconds(100), kWaits, kWaits);
  EXPECT_EQ(card.second(), Turn::kRun);
  EXPECT_EQ(card.first(), Turn::kWait);
}

TEST(CardTurns, DoNotWaitForeverForWorkThatDoesNotEnd) {
  Card card(TurnRule::kBurst);
  card.look({}, kWaits, kNothing);
  card.look(milliseconds(20), kWorks, kWaits);
  ASSERT_EQ(card.first(), Turn::kWait);
  card.look(milliseconds(499), kWorks, kWaits);
  EXPECT_EQ(card.second(), Turn::kWait);
  card.look(milliseconds(2), kWorks, kWaits);
  EXPECT_EQ(card.second(), Turn::kRun);
}

TEST(CardTurns, LendTheCardOfWhoDoesNothing) {
  Card card(TurnRule::kBurst);
  card.look({}, kWaits, kNothing);
  card.look(milliseconds(1), kWorks, kWaits);
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.second(), Turn::kWait) << "it may be back at once";
  card.look(microseconds(250), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait);
  card.look(microseconds(50), kNothing, kWaits);
  EXPECT_EQ(card.second(), Turn::kRun);
  // It comes back with less virtual time, and does not wait for a whole turn.
  card.look(milliseconds(2), kWaits, kWorks);
  EXPECT_EQ(card.second(), Turn::kWait);
  card.look(microseconds(100), kWaits, kNothing);
  EXPECT_EQ(card.first(), Turn::kRun);
}

// The first one has the card, has gaps of `gap` between two pieces of work, and has less virtual
// time than the second one, which waits for it and takes `drain` to give it back.
class Gaps : public Card {
 public:
  explicit Gaps(Nanoseconds gap, Nanoseconds drain = milliseconds(40))
      : Card(TurnRule::kBurst, 0.9, 0.1) {
    look({}, kNothing, kWaits);
    look(milliseconds(60), kWaits, kWorks);
    look(drain - milliseconds(1), kWaits, kWorks);
    look(milliseconds(1), kWaits, kNothing);
    for (int i = 0; i < 3; ++i) {
      look(milliseconds(1), kWorks, kNothing);
      look(microseconds(100), kNothing, kNothing);
      look(gap - microseconds(100), kWorks, kNothing);
    }
    look(microseconds(100), kWorks, kWaits);
  }
};

TEST(CardTurns, KeepTheCardInAGapWhereItWouldBeAwayForLonger) {
  Gaps card(milliseconds(3));
  card.look(microseconds(100), kNothing, kWaits);
  card.look(milliseconds(4), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun) << "the second one would keep it for 40 ms";
  card.look(milliseconds(1), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait) << "it has not come back";
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.second(), Turn::kRun);
}

TEST(CardTurns, KeepTheCardInALongGapWhereItWouldBeAwayForMuchLonger) {
  Gaps card(milliseconds(10), milliseconds(400));
  card.look(microseconds(100), kNothing, kWaits);
  card.look(milliseconds(12), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun);
}

// The second one says that it has no work, and works again as soon as its turn ends.
TEST(CardTurns, KeepTheCardFromWhoHidesHowLongItTakes) {
  Card card(TurnRule::kBurst, 0.9, 0.1);
  card.look({}, kNothing, kWaits);
  card.look(milliseconds(1), kNothing, kWorks);
  card.look(microseconds(100), kWaits, kNothing);
  card.look(microseconds(250), kWaits, kNothing);
  ASSERT_EQ(card.second(), Turn::kWait);
  card.look(microseconds(100), kWaits, kWorks);
  card.look(milliseconds(400), kWaits, kWorks);
  card.look(microseconds(100), kWaits, kNothing);
  ASSERT_EQ(card.first(), Turn::kRun);
  card.look(milliseconds(1), kWorks, kNothing);
  card.look(microseconds(100), kNothing, kNothing);
  card.look(milliseconds(3), kWorks, kNothing);
  card.look(microseconds(100), kWorks, kWaits);
  card.look(microseconds(100), kNothing, kWaits);
  card.look(milliseconds(4), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun);
}

TEST(CardTurns, ChargeTheGapsInWhichTheCardIsKept) {
  Gaps card(milliseconds(3));
  int gaps = 0;
  for (; gaps < 1'000 && card.first() == Turn::kRun; ++gaps) {
    card.look(microseconds(100), kWorks, kWaits);
    for (int i = 0; i < 30 && card.first() == Turn::kRun; ++i) {
      card.look(microseconds(100), kNothing, kWaits);
    }
  }
  EXPECT_LT(gaps, 200) << "or over 1,000, if a gap counts as long as one in which nobody waits";
}

TEST(CardTurns, KeepTheCardInNoGapThatIsLong) {
  Gaps card(milliseconds(7));
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait);
  Gaps other(milliseconds(3), milliseconds(11));
  other.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(other.first(), Turn::kWait) << "it would be away for 11 ms only";
}

TEST(CardTurns, KeepTheCardForNobodyWhoHadMoreThanTheOther) {
  Gaps card(milliseconds(3));
  for (int i = 0; i < 30; ++i) card.look(milliseconds(100), kWorks, kNothing);
  card.look(microseconds(100), kWorks, kWaits);
  card.look(microseconds(100), kNothing, kWaits);
  ASSERT_EQ(card.second(), Turn::kRun);
  card.look(microseconds(500), kNothing, kWorks);
  card.look(microseconds(500), kWaits, kNothing);
  card.look(microseconds(100), kWaits, kNothing);
  ASSERT_EQ(card.first(), Turn::kRun);
  card.look(microseconds(100), kWorks, kNothing);
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait);
}

TEST(CardTurns, LendTheCardAtOnceWhereGapsAreLong) {
  Gaps card(milliseconds(20));
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait) << "it will not be back soon";
  card.look(microseconds(50), kNothing, kWaits);
  EXPECT_EQ(card.second(), Turn::kRun);
}

TEST(CardTurns, KeepTheCardAgainAfterAShortGap) {
  Gaps card(milliseconds(20));
  card.look(microseconds(100), kWorks, kNothing);
  card.look(microseconds(100), kNothing, kNothing);
  card.look(microseconds(50), kWorks, kNothing);
  card.look(microseconds(50), kWorks, kWaits);
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun) << "it may be back at once";
}

TEST(CardTurns, TakeTheTimeToBeginForNoGap) {
  Gaps card(milliseconds(20));
  card.look(microseconds(100), kNothing, kWaits);
  card.look(microseconds(50), kNothing, kWaits);
  card.look(milliseconds(20), kWaits, kWorks);
  card.look(microseconds(100), kWaits, kNothing);
  ASSERT_EQ(card.first(), Turn::kRun);
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kRun) << "it is about to begin";
  card.look(microseconds(50), kWorks, kNothing);
  card.look(microseconds(100), kNothing, kWaits);
  EXPECT_EQ(card.first(), Turn::kWait) << "its gaps are still long";
}

TEST(CardTurns, EndEarlierWhereWhatIsQueuedTakesLonger) {
  for (const int drain : {0, 4}) {
    Card card(TurnRule::kBurst, 0.5, 0.5);
    card.look({}, kWaits, kNothing);
    card.look(milliseconds(1), kWorks, kWaits);
    card.look(milliseconds(20), kBoth, kWaits);
    card.look(milliseconds(drain), kBoth, kWaits);
    card.look(microseconds(1), kWaits, kWaits);
    card.look(milliseconds(30), kWaits, kBoth);
    card.look(microseconds(1), kWaits, kWaits);
    ASSERT_EQ(card.first(), Turn::kRun);
    card.look(milliseconds(7), kBoth, kWaits);
    EXPECT_EQ(card.first(), drain == 0 ? Turn::kRun : Turn::kWait);
  }
}

// How long a container with this fixed share has its first turn.
Nanoseconds first_turn(double share) {
  Card card(TurnRule::kFixed, share, 1 - share);
  card.look({}, kWaits, kNothing);
  Nanoseconds turn{};
  for (; card.first() == Turn::kRun; turn += microseconds(1)) {
    card.look(microseconds(1), kBoth, kNothing);
  }
  return turn;
}

TEST(CardTurns, ChargeNobodyForTheChange) {
  // It begins with 5 ms, and gets a tenth of the time.
  EXPECT_NEAR(static_cast<double>(first_turn(0.1).count()), 5.2e6 / 0.9, 1e4);
  // A tenth of what it uses is all that is free.
  EXPECT_NEAR(static_cast<double>(first_turn(0.01).count()), 0.5e6 / 0.89, 1e4);
}

// Two containers that always have work; returns what the first one had of the time.
double part_of_first(Card& card, Nanoseconds time) {
  Nanoseconds had{};
  Nanoseconds all{};
  bool works[2] = {false, false};
  while (all < time) {
    for (int i = 0; i < 2; ++i) works[i] = (i == 0 ? card.first() : card.second()) != Turn::kWait;
    card.look(microseconds(100), works[0] ? kBoth : kWaits, works[1] ? kBoth : kWaits);
    all += microseconds(100);
    if (works[0]) had += microseconds(100);
  }
  return std::chrono::duration<double>(had) / std::chrono::duration<double>(all);
}

TEST(CardTurns, GiveEachItsShareOfTheTime) {
  for (const double share : {0.1, 0.25, 0.5, 0.9}) {
    Card card(TurnRule::kBurst, share, 1 - share);
    card.look({}, kWaits, kWaits);
    EXPECT_NEAR(part_of_first(card, seconds(5)), share, 0.02);
  }
  Card small(TurnRule::kBurst, 0.2, 0.1);
  small.look({}, kWaits, kWaits);
  EXPECT_NEAR(part_of_first(small, seconds(5)), 0.667, 0.02) << "the rest is dealt by share";
}

TEST(CardTurns, GiveNobodyMoreThanAFixedShare) {
  Card card(TurnRule::kFixed, 0.2, 0.3);
  card.look({}, kWaits, kWaits);
  EXPECT_NEAR(part_of_first(card, seconds(5)), 0.2, 0.02);
}

TEST(CardTurns, GoOnWhereTheHolderDoesNotBegin) {
  for (const TurnRule rule : {TurnRule::kBurst, TurnRule::kFixed}) {
    Card card(rule);
    card.look({}, kWaits, kNothing);
    ASSERT_NE(card.first(), Turn::kWait);
    int had = 0;
    for (int i = 0; i < 1'000; ++i) {
      // The first one says that it waits, whatever it is told, as a stopped process does.
      card.look(microseconds(100), kWaits, card.second() != Turn::kWait ? kBoth : kWaits);
      had += card.second() != Turn::kWait ? 1 : 0;
    }
    EXPECT_GT(had, 200);
  }
}

TEST(CardTurns, TakeNothingOffTheHolderForWhatOthersSay) {
  Card card(TurnRule::kFixed, 0.3, 0.7);
  card.look({}, kWaits, kNothing);
  Nanoseconds had{};
  for (int i = 0; i < 20'000; ++i) {
    const bool works = card.first() != Turn::kWait;
    card.look(microseconds(100), works ? kBoth : kWaits, kWorks);
    if (works) had += microseconds(100);
  }
  EXPECT_LT(had, milliseconds(680)) << "of two seconds";
}

TEST(CardTurns, ForgetWhatWasSavedLongAgo) {
  Card card(TurnRule::kBurst, 0.5, 0.5);
  card.look({}, kNothing, kWaits);
  for (int i = 0; i < 100; ++i) card.look(milliseconds(100), kNothing, kBoth);
  card.look({}, kWaits, kBoth);
  // It was idle for 10 s, and is not alone on the card for them.
  EXPECT_LT(part_of_first(card, seconds(1)), 0.6);
}

TEST(CardTurns, GoOnWhereTheHolderIsRemoved) {
  Card card(TurnRule::kBurst);
  card.look({}, kWaits, kNothing);
  card.look(milliseconds(1), kWorks, kWaits);
  card.turns().remove(1);
  const auto look = card.turns().look(card.now() + milliseconds(1), {{2, kWaits}});
  EXPECT_EQ(look.turns, (std::map<CardTurns::Id, Turn>{{2, Turn::kAlone}}));
}

TEST(CardTurns, ChargeLittleForALookThatIsLate) {
  Card card(TurnRule::kFixed);
  card.look({}, kWaits, kNothing);
  card.look(milliseconds(1), kWorks, kNothing);
  card.look(std::chrono::hours(1), kWaits, kNothing);
  bool had = false;
  for (int i = 0; i < 50 && !had; ++i) {
    card.look(milliseconds(100), kWaits, kNothing);
    had = card.first() == Turn::kRun;
  }
  EXPECT_TRUE(had) << "as if the node had slept";
}

TEST(LaunchWindow, QueuesAsMuchAsTakesThreeMilliseconds) {
  share::LaunchWindow window;
  std::uint64_t now = 1'000'000;
  int queued = 0;
  while (window.may_launch(false)) {
    window.launched(now);
    ++queued;
  }
  EXPECT_EQ(queued, 4) << "nothing is known of these launches";
  window.finished(4, now + 400'000);
  EXPECT_EQ(window.mark_every(), 7U);
  for (queued = 0; window.may_launch(false); ++queued) window.launched(now);
  EXPECT_EQ(queued, 30) << "of 100 microseconds each";
  while (window.may_launch(true)) {
    window.launched(now);
    ++queued;
  }
  EXPECT_EQ(queued, 120) << "while nobody else wants the card";
}

// Such as a kernel that waits for a value that a later one writes.
TEST(LaunchWindow, LetsMoreThroughWhereNothingEnds) {
  share::LaunchWindow window;
  std::uint64_t now = 1'000'000'000;
  std::uint64_t launches = 0;
  for (; launches < 1'000 && now < 2'000'000'000; now += 1'000'000) {
    for (; window.may_launch(false); ++launches) window.launched(now);
    window.blocked(now);
  }
  EXPECT_GE(launches, 1'000U) << "within a second";
  window.finished(10, now);
  EXPECT_FALSE(window.may_launch(false)) << "something ends again";
}

TEST(LaunchWindow, QueuesOneThatTakesLonger) {
  share::LaunchWindow window;
  for (std::uint64_t i = 0; i < 20; ++i) {
    window.launched(i * 50'000'000);
    window.finished(1, (i + 1) * 50'000'000);
  }
  EXPECT_TRUE(window.may_launch(false));
  window.launched(1'000'000'000);
  EXPECT_FALSE(window.may_launch(false));
  EXPECT_EQ(window.mark_every(), 1U);
}

}  // namespace
}  // namespace mgpu::plugin
