// Keeps programs that do not use MPS off the cards whose shares MPS enforces (--mps-exclusive).
//
// A card is exclusive while containers hold parts of it that MPS limits, and has the mode that it
// had before while a container holds all of it, or none does: a whole card is used without MPS, and
// by several processes. The mode is changed before a container starts, and follow() corrects what
// has become different since:
//
//   - the last share of a card has ended, or MPS does not enforce shares any more: restored;
//   - another program or a reload of the driver has changed the mode: set again while the daemon of
//     the card runs. mgpu-mps restores the mode of a card whose daemon it has ended for good;
//   - the driver is to be released: the healthy cards are restored, and no container with a part
//     starts. A failure is tried again a few times only, since the driver must not be used for
//     long.
//
// A container with parts of several cards does not start, because a process can use one daemon only
// (Isolation::before_start). Its record, which stays, has no influence on the mode.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps/compute_modes.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class ExclusiveCards {
 public:
  // Both outlive it.
  ExclusiveCards(ComputeModes& modes, const Records& records) : modes_(modes), records_(records) {}

  // Whether MPS enforces shares, and cards are to be exclusive. Any thread.
  void enable(bool enabled) { enabled_ = enabled; }
  bool enabled() const { return enabled_; }
  // Why the card must not be offered, one sentence; empty: there is no reason. Blocks while the
  // driver does. Any thread.
  std::string problem_of(const CardUuid& card);
  // Sets the modes of the cards of a container that is about to start, whose record is kept.
  // Errors: it must not start; one sentence. Blocks while the driver does. Any thread.
  Result<void> before_start(const Record& record);

  struct Node {
    std::vector<FoundCard> cards;
    // Asks the MPS daemon of the card.
    std::function<bool(const CardUuid&)> daemon_responds;
    bool released = false;
  };
  // Blocks while the driver does. One thread, again and again.
  void follow(const Node& node);

  // For each of these cards whether it is exclusive; empty unless it is enabled. A card whose mode
  // is not known has the one that was set last. Any thread.
  std::map<CardUuid, bool> exclusive(const std::vector<FoundCard>& cards) const;

 private:
  void follow_card(const FoundCard& card, const std::vector<Record>& bound, const Node& node);
  void follow_release();
  void restore_others(const std::vector<FoundCard>& found);
  Result<void> make_exclusive(const CardUuid& card);
  bool failed(const CardUuid& card) const;
  void note(const CardUuid& card, const Result<void>& outcome);

  ComputeModes& modes_;
  const Records& records_;
  std::atomic<bool> enabled_ = false;
  // The cards that were healthy before a release; none: not known. Used by the thread of follow().
  std::optional<std::set<CardUuid>> healthy_;
  int release_restores_ = 0;
  // Modes are changed under it, so that follow() does not act on records that have become old.
  Mutex changing_;
  bool released_ MGPU_GUARDED_BY(changing_) = false;
  mutable Mutex mutex_;
  std::set<CardUuid> settable_ MGPU_GUARDED_BY(mutex_);
  std::map<CardUuid, std::string> problems_ MGPU_GUARDED_BY(mutex_);  // of the last change
};

}  // namespace mgpu::plugin
