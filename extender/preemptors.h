// Which pods that filter refused are looked at for preemption by card, and when. Not thread-safe;
// no I/O, no clock.
//
//   (none) --filter refuses--> waiting --1 s--> taken --victims are found--> evicting --+
//                                 |               |                                     |
//   (none) <--filter or preempt---+               +--none are found--> (none)           |
//   (none) <---------------------------------------kNominationLife, or it failed--------+
//
// kube-scheduler calls preempt in the same scheduling cycle as filter, or not at all. While a pod
// is evicting, no other victims are chosen for it.
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
inline constexpr std::chrono::milliseconds kPreemptPollInterval{500};
// Pods that are taken at one poll; of one namespace, one. So a tenant causes at most two
// preemptions in a second, and the cluster eight, as its quota of priority classes allows it.
inline constexpr std::size_t kPreemptorsPerPoll = 4;
// Waiting pods, each with the names of at most kPreemptNodesMax nodes. Those of the highest
// priority stay; the others are refused again after kube-scheduler's backoff.
inline constexpr std::size_t kPreemptorsMax = 64;
// As many as kube-scheduler looks at for one pod where there are up to 1,000 nodes.
inline constexpr std::size_t kPreemptNodesMax = 128;
inline constexpr std::size_t kPreemptorsEvictingMax = 1'024;

class Preemptors {
 public:
  struct Preemptor {
    PodRef ref;
    PodUid uid;
    std::int32_t priority = 0;
    std::vector<std::string> nodes;  // on which an eviction can help
  };

  // filter refused the pod.
  void refused(Preemptor pod, Instant now);
  // Filter passed the pod, or kube-scheduler evicts pods for it.
  void settled(const PodUid& uid) { waiting_.erase(uid); }
  // The pods that are due, the most important first. They do not wait any more.
  std::vector<Preemptor> take_due(Instant now);
  // Victims are evicted for the pod until `until`, or until they are not.
  void evicting(const PodUid& uid, Instant until) { evicting_[uid] = until; }
  void not_evicting(const PodUid& uid) { evicting_.erase(uid); }
  bool is_evicting(const PodUid& uid, Instant now) const;

 private:
  struct Waiting {
    Preemptor pod;
    Instant refused{};
  };

  std::unordered_map<PodUid, Waiting> waiting_;
  std::unordered_map<PodUid, Instant> evicting_;
};

}  // namespace mgpu::extender
