// Which pods that filter refused are looked at for preemption by card, and when. Not thread-safe;
// no I/O, no clock.
//
//   (none) --filter refuses--> waiting --1 s--> taken --victims are chosen--> evicting --+
//                                 |               |                                      |
//   (none) <--filter passes the pod, preempt answers, 10 s without a choice              |
//   (none) <--kNominationLife, an eviction fails, or the nomination is taken back--------+
//
// kube-scheduler calls preempt in the same scheduling cycle as filter, or not at all. The second
// counts from the first refusal, since kube-scheduler may try a pod many times in a second. While a
// pod is evicting, no other victims are chosen for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"

namespace mgpu::extender {

inline constexpr std::chrono::milliseconds kPreemptAfter{1'000};
// After the last refusal, unless the first was that long ago: a nomination in the scheduling cycle
// that has begun with a refusal would be cleared at its end.
inline constexpr std::chrono::milliseconds kPreemptQuiet{200};
inline constexpr std::chrono::milliseconds kPreemptWithoutQuiet{5'000};
inline constexpr std::chrono::milliseconds kPreemptPollInterval{500};
// Pods that are taken at one poll; of one namespace, one. So a tenant causes at most two
// preemptions in a second, and the cluster eight, as its quota of priority classes allows it.
inline constexpr std::size_t kPreemptorsPerPoll = 4;
// Waiting pods, each with the names of at most kPreemptNodesMax nodes. Those of the highest
// priority stay; the others are refused again after kube-scheduler's backoff.
inline constexpr std::size_t kPreemptorsMax = 64;
// Waiting pods of one namespace, while others have no place.
inline constexpr std::size_t kPreemptorsOfNamespace = 8;
// As many as kube-scheduler looks at for one pod where there are up to 1,000 nodes.
inline constexpr std::size_t kPreemptNodesMax = 128;
inline constexpr std::size_t kPreemptorsEvictingMax = 1'024;
// Nodes may have been cordoned since the refusal, and other pods may have been bound.
inline constexpr std::chrono::milliseconds kPreemptAnswerLife{10'000};

class Preemptors {
 public:
  // A group preempts as one: `uid` is its name, and `ref` the last pod of it that was refused.
  struct Preemptor {
    PodRef ref;
    PodUid uid;
    std::int32_t priority = 0;
    bool nominated = false;
    std::vector<std::string> nodes;  // on which an eviction can help
    bool is_group = false;
  };

  // Notes that filter refused the pod. If it has victims and is not nominated any more,
  // kube-scheduler has taken the nomination back, since none of them is terminating: others may be
  // chosen.
  void refused(Preemptor pod, Instant now);
  // Notes that filter passed the pod, or that kube-scheduler evicts pods for it: what is being
  // chosen is void.
  void settled(const PodUid& uid);
  // Takes the pods that are due, the most important first. They do not wait any more.
  std::vector<Preemptor> take_due(Instant now);
  // Victims were chosen for a pod that was taken, and are evicted until `until`. Returns false if
  // the choice is void.
  bool begin(const PodUid& uid, Instant now, Instant until);
  void not_evicting(const PodUid& uid) { evicting_.erase(uid); }
  bool is_evicting(const PodUid& uid, Instant now) const;

 private:
  struct Waiting {
    Preemptor pod;
    Instant first_refused{};
    Instant last_refused{};
  };

  struct Evicting {
    Instant since{};
    Instant until{};
  };

  bool make_room(const Preemptor& pod);

  std::unordered_map<PodUid, Waiting> waiting_;
  std::unordered_map<PodUid, Instant> taken_;  // when
  std::unordered_map<PodUid, Evicting> evicting_;
};

}  // namespace mgpu::extender
