// Which pods preemption by card does not evict, and for how long, because of what the API server
// has answered: pods whose eviction it refuses, and groups whose pods are evicted together or not
// at all. Owned by CardPreemption, which adds the answers about groups, and CardEviction those
// about pods. Not thread-safe; no I/O, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

// A pod whose eviction the API server refuses, as a policy of the cluster may do, is spared for
// this long. After so many refusals one after another, which missing rights cause, no pod is looked
// at for this long.
inline constexpr std::chrono::milliseconds kPreemptRefusedPause{300'000};
inline constexpr std::size_t kPreemptRefusalsMax = 3;
inline constexpr std::size_t kPreemptSparedMax = 256;
// How long the answer about the group of a victim is used, and of how many groups.
inline constexpr std::chrono::milliseconds kPreemptGroupLife{300'000};
inline constexpr std::size_t kPreemptGroupsMax = 256;

class SparedVictims {
 public:
  // Returns whether all pods are spared.
  bool all(Instant now) const { return now < paused_until_; }
  // Removes what has ended, and returns the pods and groups that are spared. With `unknown_groups`,
  // pods of groups that are not known are spared, too.
  Spared at(Instant now, bool unknown_groups);
  // Notes that the API server refused to evict `victim`; without one, that it refused a nomination.
  void refused(const std::optional<PodUid>& victim, Instant now);
  // Notes that a pod was evicted.
  void evicted() { refusals_ = 0; }
  // Returns whether the pods of a group, as "team/train", are evicted together, if that is known.
  std::optional<bool> evicted_together(const std::string& group) const;
  // At kPreemptGroupsMax, the group that ends first is removed.
  void add_group(const std::string& group, bool evicted_together, Instant now);

 private:
  struct Group {
    bool evicted_together = false;
    Instant until{};
  };

  Instant paused_until_{};
  std::size_t refusals_ = 0;  // since the last eviction
  std::map<PodUid, Instant> pods_;
  std::map<std::string, Group> groups_;
};

}  // namespace mgpu::extender
