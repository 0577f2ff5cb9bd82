// Which rejected pods kube-scheduler may not try again by itself, and when to requeue them.
//
// A pod that was rejected before a release, and not filtered again after it, may be stranded:
// kube-scheduler saw the release first, filtered the pod at once, and no further event follows.
// The same holds for a pod that fits no cards, even empty ones, and a node whose cards change.
//
// A pod for which kube-scheduler has not examined all nodes (asked_nodes.h) is stranded at once,
// and a requeue is due at once. There are at most kUrgentRequeuesMax of these at a time, and one
// each kUrgentRequeueEvery, unless they find nodes.
//
//   rejected ---> waiting ---a release---> stranded ---due---> requeue sent ---succeeded---> out
//                    |                        |   ^                 |
//                    |                        |   +-----failed------+
//                    +---filtered again, bound, finished, deleted, too old---> out
//
// Not thread-safe; no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

class RequeueTracker {
 public:
  // Filter rejected the pod when the ledger had counted `releases`. With more than kRequeuePodsMax
  // pods the one that waits longest is dropped.
  void on_rejected(const PodUid& uid, std::uint64_t releases, Instant now);
  // The same for a pod that only other cards help, of which the ledger had counted this many
  // changes.
  void on_other_cards_needed(const PodUid& uid, std::uint64_t card_changes, Instant now);
  // The same for a pod that fits on a node that kube-scheduler did not examine. Returns false, and
  // does nothing, if there have been too many requeues for such pods.
  bool on_rejected_in_part(const PodUid& uid, std::uint64_t releases, Instant now);
  // Such a pod has found a node: one requeue more may be sent.
  void on_found();
  // kube-scheduler filters the pod.
  void on_filter(const PodUid& uid, Instant now);
  // The pod is bound, finished or deleted.
  void on_settled(const PodUid& uid);
  // What the ledger has counted at `now`.
  void observe(std::uint64_t releases, std::uint64_t card_changes, Instant now);

  // When to requeue; none while no pod is stranded or a requeue is in progress.
  std::optional<Instant> due() const;
  // A requeue is sent; succeeded() or failed() follows, once.
  void sent(Instant now);
  void succeeded();
  void failed(Instant retry_at);

  bool empty() const { return by_uid_.empty(); }
  std::size_t size() const { return by_uid_.size(); }

 private:
  struct Entry {
    PodUid uid;
    std::uint64_t count;  // of releases, or of changes of cards
    Instant rejected_at;
    std::optional<Instant> stranded_since{};
    bool urgent = false;
    bool needs_other_cards = false;
  };
  using Entries = std::list<Entry>;

  // What is counted of that for which the pod waits.
  std::uint64_t counted_for(const Entry& entry) const;
  // Adds the pod; it is stranded if what it waits for has happened since the decision.
  void remember(Entry entry);
  void add(Entry entry);
  void erase(Entries& entries, Entries::iterator entry);
  void drop_front(Entries& entries);
  void drop_old(Entries& entries, Instant now);

  Entries waiting_;   // the one rejected longest ago is in front
  Entries stranded_;  // the one stranded longest ago is in front
  std::unordered_map<PodUid, Entries::iterator> by_uid_;
  std::size_t urgent_ = 0;               // of stranded_
  bool urgent_requeue_counted_ = false;  // the next requeue counts as one for urgent pods
  Instant urgent_until_{};  // kUrgentRequeueEvery for each such requeue, from its time on
  std::uint64_t releases_ = 0;
  std::uint64_t card_changes_ = 0;
  std::optional<Instant> last_filter_;
  std::optional<Instant> sent_;
  std::optional<Instant> not_before_;
};

}  // namespace mgpu::extender
