// The cards that are reserved for pods that kube-scheduler has nominated for a node
// (status.nominatedNodeName). Part of the ledger; used under its lock.
//
// After preempt, kube-scheduler evicts the victims on one of the nodes answered and nominates the
// pod for it. After filter, it nominates a pod that waits on its node for something else before it
// is bound: a volume that is made there, a resource claim, the other pods of a group. Until the pod
// is bound, kube-scheduler's filters count it on that node for pods of equal or lower priority. But
// they add up the whole node: such a pod could still take a part of the card, and the victims would
// have been evicted in vain, or the pod be tied by its volume to a node without room. Here the same
// rule is applied to the cards that the nominated pod is to get:
//
//   (none) --preempt or filter answers--> offered --the watch shows the nomination--> counted
//                                            ^                                           |
//                                            +-------nominated for no node, or another---+
//
// Both end when the pod is assumed, bound, finished or deleted, when one of the cards is lost,
// becomes smaller than the share or is not usable, and at a time given with the answer, so that no
// pod waits longer for one that does not come. What filter answers for a pod that may have to wait
// counts at once, for the moment until the watch shows whether it does.
//
// kube-scheduler asks about all members of a group before it binds the first one. So what a member
// was answered counts for the other members whatever their priority, and as long as filter is asked
// about the next ones, up to kGroupReservationLife, and for kGroupRetryLife after a bind of one of
// them has begun or has failed. Binds that fail again and again prolong it for kGroupRetriesLife.
//
// kube-scheduler tries a group that does not fit again for ever, and a pod that was rejected
// because of it may be tried again shortly after the group each time. So where the cards of a
// member are kept no longer and it was not bound, the first such pod has its turn: what it needs on
// the node is kept for it, also from groups of higher priority. Other groups might leave it too
// little of what the member had. A turn does not count for a pod that has cards on the node itself,
// nor for a bind, since filter has answered those pods before.
//
// A turn lasts for kTurnLife after the last end of cards for which its pod waits on the node, since
// groups may keep them one after another, and for kTurnsLife at most. It ends when filter answers
// the pod. A node has one turn at a time, as two pods may need the same cards; the first one that
// was refused then is next.
//
// What is kept everywhere (kept_everywhere.h) is kept from pods of every priority.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/ledger/decided_pod.h"
#include "extender/ledger/kept_everywhere.h"
#include "extender/ledger/offer_table.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"

namespace mgpu::extender {

// A pod, and the node that it is nominated for.
using Nominated = std::pair<PodUid, NodeName>;

class Nominations {
 public:
  // preempt or filter answered these nodes; the pod's earlier answer ends. Nodes beyond
  // kNominatedNodesMax are not remembered. `nominated` is the node that the pod is nominated for
  // already; if it is empty, the one that the watch has shown. With `counted_until` the first node
  // counts until then, or longer if the watch shows the nomination, and the same holds for what is
  // counted of the pod's group.
  void offer(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
             const NodeName& nominated, Instant until, std::optional<Instant> counted_until = {});
  // The watch shows the pod nominated for `node`; empty if it is not nominated any more. Ignored
  // for a pod that neither preempt nor filter answered.
  void nominate(const PodUid& uid, const NodeName& node);
  // These pods are nominated, and no others.
  void replace(const std::vector<Nominated>& nominated);
  // The pod is finished or deleted, and has no turn.
  void end(const PodUid& uid);
  // Ends what is kept for the pod, which has cards on a node. No waiting pod gets a turn by it.
  void end_with_cards(const PodUid& uid);
  // How often preempt or filter answered, and whether they have answered the pod since then.
  std::uint64_t answers() const { return answers_; }
  bool answered_since(const PodUid& uid, std::uint64_t answers) const;
  // As long as binds of the pod's group may prolong what is counted for the pod. Instant::max()
  // before the first one.
  Instant latest_of(const PodUid& uid) const;
  // The pod is assumed with these cards. If they are those that were reserved, none becomes free.
  void end_assumed(const PodUid& uid, const NodeName& node, const std::vector<CardHold>& holds);
  // A bind of a member has begun: what is counted of the group is counted for kGroupRetryLife, but
  // at most for kGroupRetriesLife after the first such bind. Those that are nominated count in any
  // case.
  void keep_group(const std::string& group, Instant now);
  // The bind of a member, which is not counted, has failed: its cards are counted in the same way.
  // `latest` is what latest_of() returned before the pod was assumed.
  void keep_member(const DecidedPod& pod, NominatedPlacement cards, Instant now, Instant latest);
  // Ends the answers whose `until` is not after `now`, and begins turns.
  void expire(Instant now);
  // What is kept on each card, and counts for has_reservations_on() and count().
  KeptEverywhere& everywhere() { return everywhere_; }
  // The node has changed to this, or is removed. Ends what has lost a card of the node.
  void end_on(const NodeName& node, const Node* now);

  // Whether anything is counted on the node that is not free to the pod.
  bool has_reservations_on(const DecidedPod& pod, std::string_view node) const {
    if (everywhere_.any() && !everywhere_.kept_from(pod.uid, pod.group).zero()) return true;
    return table_.any_counted() && finds_reservations(pod, node);  // mostly there are none
  }
  // Adds that to what is used of a copy of the node.
  void count(const DecidedPod& pod, Node& node) const;
  // The same without what is kept for pods of groups and for turns: the rest is used in a turn,
  // too.
  void count_for_turn(const DecidedPod& pod, Node& node) const;

  // The nodes that the pods of a group were answered; some may be named twice.
  std::vector<NodeName> nodes_of(const std::string& group) const;

  // How many pods have reserved cards.
  std::size_t size() const { return table_.pods_counted(); }
  // filter has refused the pod on a node, where it is to get `cards` in its turn. Without any it
  // waits and has no turn.
  void waits_for(const DecidedPod& pod, const NominatedPlacement& cards);
  // Returns how often something that a pod waited for is not counted any more. Ends for which only
  // pods of the same group wait do not count: kube-scheduler asks about these again without a
  // requeue.
  std::uint64_t releases() const { return table_.releases() + everywhere_.releases(); }

 private:
  bool finds_reservations(const DecidedPod& pod, std::string_view node) const;
  // offer() for a pod that may go on waiting for other cards.
  void put(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
           const NodeName& nominated, Instant until, std::optional<Instant> counted_until);
  void count_until(OfferTable::At at, Instant until);
  void give_turn(const Turn& turn, Instant now);

  OfferTable table_;
  KeptEverywhere everywhere_;
  Instant first_end_ = Instant::max();  // nothing ends before it, and only turns may begin
  std::uint64_t answers_ = 0;
};

}  // namespace mgpu::extender
