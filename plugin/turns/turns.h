// Turns at a card: which of its containers may have work on it, so that each has its share of the
// time. One container at a time has work on the card. The time that passes meanwhile is then its
// own, and can be charged to it without asking the card, which only shows times that contain the
// turns of others.
//
//   waits --its virtual time is the least--> runs --revoked--> drains --no work left--> idle
//
// Virtual time is what a container has had, divided by its share: whoever has the least is next,
// and what it could not use while others ran is not lost for it. A turn is revoked if its container
// has had a quantum and another one waits with less virtual time, if it has had no work for a
// moment and another one waits, or, with fixed shares, if it has used up its budget. How long the
// moment is depends on what was seen of both: how long the holder usually does nothing, and how
// long the card would be away.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace mgpu::plugin {

// Times of a monotonic clock with any beginning.
using Nanoseconds = std::chrono::nanoseconds;

enum class TurnRule {
  kBurst,  // each container gets its share at least; what others do not use is dealt by share
  kFixed,  // no container gets more than its share
};

enum class Turn {
  kWait,   // no more work; what was queued is finished
  kRun,    // another container may want the card
  kAlone,  // nobody does, and nobody asks how much this one uses
};

struct TurnOptions {
  TurnRule rule = TurnRule::kBurst;
  // A whole turn, with the time that the holder usually takes to finish.
  Nanoseconds quantum = std::chrono::milliseconds(10);
  // The quantum of a container while one waits that comes from being idle.
  Nanoseconds short_quantum = std::chrono::microseconds(1500);
  // The longest gap between two pieces of work in which the holder keeps the card. A container
  // whose gaps usually last more than twice as long loses the card as soon as it has no work.
  Nanoseconds grace = std::chrono::microseconds(200);
  // A container with less virtual time than the one that waits also keeps the card in longer gaps,
  // for half as long again as they usually last, if the other one usually takes four times as long
  // as they do to give it back. It does not if that is over this time, or over a quarter of what
  // the other one takes.
  Nanoseconds keep = std::chrono::milliseconds(10);
  // What the card loses of a turn that begins after another container's, most of it in the driver's
  // switch. It is charged to nobody, up to a tenth of what was used in the turn.
  Nanoseconds change = std::chrono::microseconds(200);
  // How long a container that waited may take to begin, when it has got its turn.
  Nanoseconds wake = std::chrono::milliseconds(2);
  // How long what was queued may take when the turn ends. The driver then mixes the work of two
  // containers until it is done.
  Nanoseconds drain = std::chrono::milliseconds(500);
  // How far behind the others a container comes back that was idle.
  Nanoseconds credit = std::chrono::milliseconds(50);
  // What a container can owe the others because its work did not end.
  Nanoseconds debt = std::chrono::seconds(1);
  // With fixed shares: at most this much time is saved up, times the share, and how much there must
  // be to begin. A container that waits for the card saves up to `saved_waiting`.
  Nanoseconds saved = std::chrono::milliseconds(100);
  Nanoseconds saved_waiting = std::chrono::seconds(1);
  Nanoseconds begin = std::chrono::milliseconds(1);
};

// What the processes of a container report at a look. The report may be false: while others want
// the card, it counts at most for the time in which they held it.
struct CardActivity {
  bool worked = false;  // had work on the card at some time since the last look
  bool works = false;   // has work on the card now
  bool waits = false;   // has work that it may not give to the card
};

// One card. One thread.
class CardTurns {
 public:
  // Any number that the caller does not use for another container.
  using Id = std::size_t;
  struct Look {
    std::map<Id, Turn> turns{};  // of all containers
    Nanoseconds next{};          // until the next look is due, at most a millisecond or so
  };

  explicit CardTurns(const TurnOptions& options) : options_(options) {}

  // `share` is of the whole card: over 0 and at most 1. REQUIRES: there is no such container.
  void add(Id id, double share);
  // Its work ends with it.
  void remove(Id id);

  // REQUIRES: `now` does not go back. A container that is not in `activity` does nothing.
  Look look(Nanoseconds now, const std::map<Id, CardActivity>& activity);

 private:
  struct Container {
    double share;
    double virtual_time;
    double saved;  // of fixed shares; below 0 is what it owes
    CardActivity now{};
    bool worked_all = false;    // and not only at times since the last look
    bool active = false;        // at the last look
    bool fresh = true;          // was idle before it waited
    Nanoseconds worked{};       // when it was last seen with work
    Nanoseconds usual_gap{};    // between two pieces of work; 0: there was none
    Nanoseconds usual_drain{};  // from the end of a turn to the end of its work
  };

  void apply(Nanoseconds now, const std::map<Id, CardActivity>& activity);
  bool had_card(Id id, const Container& container) const;
  double without_change(double used);
  void account(Nanoseconds now);
  void limit_virtual_time();
  bool may_begin(const Container& container) const;
  const std::pair<const Id, Container>* next_waiter() const;
  Nanoseconds quantum_of(const Container& holder) const;
  Nanoseconds grace_for(const Container& holder, const Container& other) const;
  void consider_revoking(Nanoseconds now, const std::pair<const Id, Container>* waiter);
  void end_turn(Nanoseconds now);
  void grant(Nanoseconds now, Id id);
  Turn turn_of(Nanoseconds now, Id id) const;
  Nanoseconds until_next() const;

  const TurnOptions options_;
  std::map<Id, Container> containers_{};
  bool looked_ = false;
  Nanoseconds last_{};      // look
  double virtual_now_ = 0;  // the least of active containers so far
  bool held_ = false;       // `holder_` has the card
  Id holder_ = 0;
  bool revoked_ = false;
  bool went_idle_ = false;      // why it was revoked
  Nanoseconds grace_{};         // with the holder, as of the last look
  std::optional<Id> worker_{};  // who had work on the card last, as its holder
  double change_left_ = 0;      // of TurnOptions::change, in nanoseconds
  Nanoseconds granted_{};
  Nanoseconds revoked_at_{};
};

}  // namespace mgpu::plugin
