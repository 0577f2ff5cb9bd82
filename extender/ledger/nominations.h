// The cards that are reserved for pods that preempt others. Part of the ledger; used under its
// lock.
//
// After preempt, kube-scheduler evicts the victims on one of the nodes answered and nominates the
// pod for it (status.nominatedNodeName). Until the pod is bound, kube-scheduler's filters count it
// on that node for pods of equal or lower priority. But they add up the whole node: such a pod
// could still take a part of the card that the victims leave, and they would have been evicted in
// vain. Here the same rule is applied to the cards that the nominated pod is to get:
//
//   (none) --preempt answers--> offered --the watch shows the nomination--> counted
//                                  ^                                           |
//                                  +-------nominated for no node, or another---+
//
// Both end when the pod is assumed, bound, finished or deleted, when the cards of the node change,
// and at a time given with the answer, so that no pod waits longer for one that does not come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// What a pod is to get on one node.
struct NominatedPlacement {
  NodeName node;
  std::vector<CardHold> holds;
  NodeResources resources;  // what it requests beside cards
};

// The pod that a decision is about. What is reserved for itself, or for a pod of lower priority, is
// free to it. Without a uid, everything is. Its searches count against the allowance of the
// namespace (search_allowances.h), and without one against none.
struct DecidedPod {
  PodUid uid{};
  std::int32_t priority = 0;
  std::string name_space{};
};

// A pod, and the node that it is nominated for.
using Nominated = std::pair<PodUid, NodeName>;

class Nominations {
 public:
  // preempt answered these nodes; the pod's earlier answer ends. At kNominationsMax pods the answer
  // that ends first is removed; nodes beyond kNominatedNodesMax are not remembered. `nominated` is
  // the node that the pod is nominated for already, or empty.
  void offer(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
             const NodeName& nominated, Instant until);
  // The watch shows the pod nominated for `node`; empty where it is not nominated any more. Ignored
  // for a pod that preempt did not answer.
  void nominate(const PodUid& uid, const NodeName& node);
  // These pods are nominated, and no others.
  void replace(const std::vector<Nominated>& nominated);
  // The pod is assumed, bound, finished or deleted.
  void end(const PodUid& uid);
  // Ends the answers whose `until` is not after `now`.
  void expire(Instant now);
  // To be called when the node's cards change or it is removed.
  void end_on(const NodeName& node);

  // Whether anything is counted on the node that is not free to the pod.
  bool has_reservations_on(const DecidedPod& pod, std::string_view node) const {
    return !counted_.empty() && finds_reservations(pod, node);  // mostly there are none
  }
  // Adds that to what is used of a copy of the node.
  void count(const DecidedPod& pod, Node& node) const;

  // How many pods have reserved cards.
  std::size_t size() const { return counted_.size(); }
  // How often something has ceased to be counted.
  std::uint64_t releases() const { return releases_; }

 private:
  struct Offer {
    std::int32_t priority = 0;
    Instant until{};
    std::vector<NominatedPlacement> placements;
    std::string counted_on;  // a node of `placements`, or empty
  };
  using Offers = std::unordered_map<PodUid, Offer>;

  bool finds_reservations(const DecidedPod& pod, std::string_view node) const;
  Offers::iterator erase(Offers::iterator at);
  void stop_counting(Offers::iterator at);
  void each_kept(const DecidedPod& pod, std::string_view node,
                 const std::function<void(const NominatedPlacement&)>& visit) const;

  Offers offers_;
  std::multimap<std::string, PodUid, std::less<>> counted_;  // by node
  Instant first_end_ = Instant::max();                       // no offer ends before it
  std::uint64_t releases_ = 0;
};

}  // namespace mgpu::extender
