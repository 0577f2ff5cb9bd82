// Which pending pods are explained when, and whether an Event says the answer. Not thread-safe; no
// I/O, no clock.
//
//   pending ---30 s---> explained ---the first answer, or another---> Event ---5 min---+
//                          ^  |                                                        |
//                          |  +-----------same answer: 1 min----------+                |
//                          +------------------------------------------+----------------+
//
// That cards are free is said when two explanations in a row find it, since the pod may be bound in
// the next moment.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"

namespace mgpu::extender {

// Most pods are bound within seconds.
inline constexpr std::chrono::milliseconds kPendingBeforeEvent{30'000};
// In a busy cluster the numbers change with each pod, so that a pod has at most kPendingEventsMax
// Events.
inline constexpr std::chrono::milliseconds kPendingBetweenEvents{300'000};
inline constexpr std::chrono::milliseconds kPendingBetweenLooks{60'000};
inline constexpr int kPendingEventsMax = 8;
// Explanations that begin at one poll, and so Events: with a poll each five seconds one in a
// second, and of one namespace two in five seconds, however many pods it has.
inline constexpr std::size_t kPendingExplainedPerPoll = 5;
inline constexpr std::size_t kPendingOfANamespace = 2;
// Pods that are followed, of at most some 1.5 KB each. Others have no Event.
inline constexpr std::size_t kPendingFollowedMax = 5'000;

// Pods of a group that are looked at together.
inline constexpr std::size_t kPendingGroupPodsMax = 64;

class PendingPods {
 public:
  struct Pending {
    PodRef ref;
    PodUid uid;
    std::string group{};  // of pods that are bound together, or empty
  };

  // Adds the pod, which is pending since `now`, or before.
  void add(const Pending& pod, Instant now);
  // Adds a pod without cards, which is not explained, but without which its group cannot begin.
  void add_without_cards(const Pending& pod);
  void remove(const PodUid& uid);
  // Removes all other pods; all of these are added next.
  void keep_only(const std::vector<Pending>& pods);
  // Takes those that are to be explained now; each is due again after kPendingBetweenLooks.
  std::vector<Pending> take_due(Instant now);
  // Returns whether an Event is to say `text`. `fits`: the cards that the pod needs are free.
  bool explained(const PodUid& uid, const std::string& text, bool fits, Instant now);
  // The pods of a group. None if some may not be followed, one has no cards and may fit nowhere, or
  // there are more than `most`.
  std::vector<Pending> of_group(const std::string& group, std::size_t most) const;
  std::size_t size() const { return pods_.size(); }

 private:
  struct Pod {
    PodRef ref;
    std::string group;
    Instant next;  // explanation
    std::string said;
    int events = 0;
    bool fitted = false;
  };

  std::unordered_map<PodUid, Pod> pods_;
  std::unordered_map<PodUid, std::string> without_cards_;  // their groups, at most as many
  std::set<std::string> incomplete_;  // namespaces of pods that are not followed
};

}  // namespace mgpu::extender
