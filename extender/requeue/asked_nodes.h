// For which rejected pods kube-scheduler may not have examined a node that fits.
//
// For a pod, kube-scheduler examines nodes until enough of them pass its own filters, and calls the
// extender about these. For the next pod, or when it tries this one again, it goes on with the next
// nodes (pkg/scheduler/schedule_one.go, findNodesThatPassFilters). So where none of the nodes fits
// that it has sent, and one does that it has not sent for this pod, the pod is tried again soon,
// and evicts no pod meanwhile.
//
// kube-scheduler's own filters may exclude the node that fits: it may be cordoned, or belong to
// others. So this ends when kube-scheduler sends no node that is new, and after kSearchTime.
//
// Not thread-safe; no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"

namespace mgpu::extender {

class AskedNodes {
 public:
  // The pod fits on none of the nodes `asked`, and on `fitting`, which are others. Returns whether
  // kube-scheduler may find one of these; false beyond kAskedNamesMax names. With more than
  // kAskedPodsMax pods the one that was added first is forgotten.
  bool rejected(const PodUid& uid, std::span<const std::string_view> asked,
                std::span<const std::string> fitting, Instant now);
  // kube-scheduler calls preempt for the pod. Returns whether no pod should be evicted, because
  // of the last rejection; once for each.
  bool take_wait(const PodUid& uid);
  // The pod fits, is bound or has ended.
  void forget(const PodUid& uid);

  std::size_t size() const { return by_uid_.size(); }

 private:
  struct Entry {
    PodUid uid;
    Instant since;
    std::vector<std::uint64_t> asked;  // hashes of the names, ascending
    bool waits = false;
  };
  using Entries = std::list<Entry>;

  Entry& entry_of(const PodUid& uid, Instant now);

  Entries entries_;  // the one added first is in front
  std::unordered_map<PodUid, Entries::iterator> by_uid_;
};

}  // namespace mgpu::extender
