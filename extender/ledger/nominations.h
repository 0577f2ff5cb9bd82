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
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/ledger/kept_everywhere.h"
#include "extender/ledger/text_hash.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// What a pod is to get on one node.
struct NominatedPlacement {
  NodeName node;
  std::vector<CardHold> holds;
  NodeResources resources;  // what it requests beside cards
  bool operator==(const NominatedPlacement&) const = default;
};

// The pod that a decision is about. What is reserved for itself, or for a pod of lower priority, is
// free to it. Without a uid, everything is. Its searches count against the allowance of the
// namespace (search_allowances.h), and without one against none.
struct DecidedPod {
  PodUid uid{};
  std::int32_t priority = 0;
  std::string name_space{};
  std::string group{};     // of pods that are bound together; empty: it is bound alone
  bool for_group = false;  // what is reserved for others of the group is free to it, too
  bool binds = false;      // the turns of others do not count
};

// A pod, and the node that it is nominated for.
using Nominated = std::pair<PodUid, NodeName>;

class Nominations {
 public:
  // preempt or filter answered these nodes; the pod's earlier answer ends. At kNominationsMax pods,
  // and at kNominationsOfNamespaceMax of its namespace, one of them is removed: that is not
  // counted, or else of the lowest priority, or else ends first. Nodes beyond kNominatedNodesMax
  // are not remembered. `nominated` is the node that the pod is nominated for already; if it is
  // empty, the one that the watch has shown. With `counted_until` the first node counts until then,
  // or longer if the watch shows the nomination, and the same holds for what is counted of the
  // pod's group.
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
  // Ends the answers whose `until` is not after `now`.
  void expire(Instant now);
  // What is kept on each card, and counts for has_reservations_on() and count().
  KeptEverywhere& everywhere() { return everywhere_; }
  // The node has changed to this, or is removed. Ends what has lost a card of the node.
  void end_on(const NodeName& node, const Node* now);

  // Whether anything is counted on the node that is not free to the pod.
  bool has_reservations_on(const DecidedPod& pod, std::string_view node) const {
    if (everywhere_.any() && !everywhere_.kept_from(pod.uid, pod.group).zero()) return true;
    return !counted_.empty() && finds_reservations(pod, node);  // mostly there are none
  }
  // Adds that to what is used of a copy of the node.
  void count(const DecidedPod& pod, Node& node) const;
  // The same without what is kept for pods of groups and for turns: the rest is used in a turn,
  // too.
  void count_for_turn(const DecidedPod& pod, Node& node) const;

  // The nodes that the pods of a group were answered; some may be named twice.
  std::vector<NodeName> nodes_of(const std::string& group) const;

  // How many pods have reserved cards.
  std::size_t size() const { return counted_pods_; }
  // filter has refused the pod on a node, where it is to get `cards` in its turn. Without any it
  // waits and has no turn.
  void waits_for(const DecidedPod& pod, const NominatedPlacement& cards);
  // Returns how often something that a pod waited for is not counted any more. Ends for which only
  // pods of the same group wait do not count: kube-scheduler asks about these again without a
  // requeue.
  std::uint64_t releases() const { return releases_ + everywhere_.releases(); }

 private:
  struct Turn {
    DecidedPod pod;
    NominatedPlacement cards;
  };
  struct Offer {
    std::int32_t priority = 0;
    std::string name_space;
    std::string group;
    Instant until{};
    Instant group_until{};  // as long as its group may count it
    // As long as binds of its group, or other pods for which its own waits, may prolong it.
    Instant latest = Instant::max();
    std::vector<NominatedPlacement> placements;
    std::string counted_on;                  // a node of `placements`, or empty
    Instant counted_until = Instant::max();  // unless the watch shows the nomination before
    bool awaited = false;                    // a pod of no or another group waits for its end
    std::optional<Turn> next{};              // of these, the one that has its turn afterwards
    bool is_turn = false;
    std::uint64_t answer = 0;  // its number
  };
  using Offers = std::unordered_map<PodUid, Offer>;

  bool finds_reservations(const DecidedPod& pod, std::string_view node) const;
  const std::vector<PodUid>& pods_counted_on(std::string_view node) const;
  // Null if nothing is counted for the pod.
  const NominatedPlacement* counted(const PodUid& uid) const;
  bool is_counted_on(const PodUid& uid, std::string_view node) const;
  void count_on(Offers::iterator at, const NodeName& node);
  // offer() for a pod that may go on waiting for other cards.
  void put(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
           const NodeName& nominated, Instant until, std::optional<Instant> counted_until);
  // The pod has no turn.
  void end_waiting(const PodUid& uid);
  void set_next(Offer& offer, std::optional<Turn> next);
  // What the pod waited for is counted no longer.
  void begin_turn_later(std::optional<Turn> turn);
  Offers::iterator erase(Offers::iterator at);
  void make_room(const std::string& name_space);
  void give_turn(const Turn& turn, Instant now);
  bool goes_on(Offers::const_iterator turn) const;
  void count_until(Offers::iterator at, Instant until);
  void count_group_until(const std::string& group, Instant until);
  void stop_counting(Offers::iterator at);
  void each_kept(const DecidedPod& pod, std::string_view node,
                 const std::function<void(const Offer&, const NominatedPlacement&)>& visit) const;
  void count(const DecidedPod& pod, Node& node, bool for_turn) const;

  Offers offers_;
  std::map<std::string, std::size_t> of_namespace_;  // how many offers
  // By node. filter searches for each node that it is asked about.
  std::unordered_map<std::string, std::vector<PodUid>, TextHash, TextEqual> counted_;
  std::size_t counted_pods_ = 0;
  KeptEverywhere everywhere_;
  Instant first_end_ = Instant::max();  // nothing ends before it
  std::uint64_t releases_ = 0;
  std::uint64_t answers_ = 0;
  std::size_t waiting_ = 0;  // offers with a pod that has its turn afterwards
  std::vector<Turn> turns_;  // that are about to begin
};

}  // namespace mgpu::extender
