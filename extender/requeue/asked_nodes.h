// For which rejected pods kube-scheduler may not have examined a node that fits.
//
// For a pod, kube-scheduler examines nodes until enough of them pass its own filters, and calls the
// extender about these. For the next pod, or when it tries this one again, it goes on with the next
// nodes (pkg/scheduler/schedule_one.go, findNodesThatPassFilters). So where none of the nodes fits
// that it has sent, and one does that it has not sent for this pod, the pod is tried again soon,
// and evicts no pod meanwhile. Pods of one group, such as replicas, search together.
//
//   (none) --rejected--> searching --no new node, kSearchTime, too many searches--> ended
//                            ^                                                        |
//                            +----other nodes fit, and kSearchAgainAfter is over------+
//
// kube-scheduler's own filters may exclude the node that fits, for reasons that the message does
// not have (node_gates.h has the others): the pod must run beside another one, for example. So a
// search that has ended does not begin again while the same nodes fit: in a cluster where nothing
// changes each group searches once. A group for which there is no memory does not search at all,
// because each search makes kube-scheduler try all pods again.
//
// Not thread-safe; no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"

namespace mgpu::extender {

// Pods for which the same nodes fit, and pass the same filters of kube-scheduler.
using ReplicaGroup = std::uint64_t;

class AskedNodes {
 public:
  // A pod of the group fits on none of the nodes `asked`, and on `fitting`, which are others.
  // Returns whether kube-scheduler may find one of these; false beyond kAskedNamesMax names. With
  // more than kSearchesMax searches the one that began first ends.
  bool rejected(ReplicaGroup group, const PodUid& uid, std::span<const std::string_view> asked,
                std::span<const std::string> fitting, Instant now);
  // kube-scheduler calls preempt for the pod. Returns whether no pod should be evicted, because
  // of the last rejection; once for each.
  bool take_wait(const PodUid& uid);
  // A pod of the group fits. Returns whether the group was searching.
  bool forget(ReplicaGroup group);

  std::size_t size() const { return groups_.size(); }

 private:
  struct Group {
    Instant since;                     // the beginning of the search
    Instant seen;                      // the last rejection
    std::vector<std::uint64_t> asked;  // hashes of the names, ascending; empty once it has ended
    std::uint64_t fitting = 0;         // a hash of the nodes that fitted when it searched last
    bool ended = false;
  };

  Group* find_or_add(ReplicaGroup group, Instant now);
  void begin(ReplicaGroup id, Group& group, Instant now);
  void end(ReplicaGroup id);
  void drop_old(Instant now);

  std::unordered_map<ReplicaGroup, Group> groups_;
  // Those that have not ended; the one that began first is in front.
  std::deque<ReplicaGroup> searching_;
  std::deque<PodUid> waiting_;  // their next preempt evicts no pod; the oldest in front
  Instant dropped_old_{};
};

}  // namespace mgpu::extender
