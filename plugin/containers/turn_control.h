// Shares out the compute of cards by turns (plugin/turns) among the containers that have the
// library of plugin/share. A thread reads what their processes say in their pages, and writes whose
// turn it is.
//
// What a container can write is read from its file, and never mapped: a file that is cut short
// would end this process. Nothing is waited for: a container that does not answer loses its turn.
#pragma once

#include <map>
#include <memory>
#include <thread>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "plugin/containers/share_pages.h"
#include "plugin/share/turn_page.h"
#include "plugin/state/records.h"
#include "plugin/turns/turns.h"

namespace mgpu::plugin {

class TurnControl {
 public:
  // Both outlive it. Containers that run already are taken over.
  TurnControl(const SharePages& pages, const Records& records, TurnRule rule);
  // Lets all containers run as they like.
  ~TurnControl();
  TurnControl(const TurnControl&) = delete;
  TurnControl& operator=(const TurnControl&) = delete;
  TurnControl(TurnControl&&) = delete;
  TurnControl& operator=(TurnControl&&) = delete;

 private:
  class Member;
  struct Card {
    explicit Card(TurnRule rule) : turns({.rule = rule}) {}
    CardTurns turns;
    std::map<CardTurns::Id, std::shared_ptr<Member>> members{};
  };

  void run();
  // Returns after `time`. False: this is about to end.
  bool wait(Nanoseconds time);
  void follow_records();
  Nanoseconds look(Card& card, Nanoseconds now) const;

  const SharePages& pages_;
  const Records& records_;
  const TurnRule rule_;
  // Used by the thread.
  std::map<CardUuid, Card> cards_{};
  CardTurns::Id last_id_ = 0;

  Mutex mutex_;
  ConditionVariable stopped_;
  bool stop_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mgpu::plugin
