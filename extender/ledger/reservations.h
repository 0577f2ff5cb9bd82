// What is reserved for pods that are not bound yet: expected placements, which other pods may take,
// nominated pods and members of groups (nominations.h), and pods whose node is not known
// (kept_everywhere.h). The changes of the ledger (ledger.h) begin and end reservations, too.
//
// Thread-safe. Time is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/gpu_request.h"
#include "extender/ledger/decided_pod.h"
#include "extender/ledger/nominations.h"

namespace mgpu::extender {

struct LedgerState;

class Reservations {
 public:
  // `state` outlives the reservations.
  explicit Reservations(LedgerState& state) : state_(state) {}
  Reservations(const Reservations&) = delete;
  Reservations& operator=(const Reservations&) = delete;

  // Counts in Card::expected until `until`, or until the pod is bound or removed or has another
  // expected placement, or the node's cards change. At kExpectedPlacementsMax, the one that ends
  // first is removed. A node that is not present is ignored.
  void expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
              const Placement& placement, Instant now, Instant until);
  void end_expectation(const PodUid& uid);

  // preempt answered these nodes for the pod, which has been nominated for the node `nominated`, or
  // for none. What the pod is to get on the node that it is nominated for is not available to pods
  // of equal or lower priority until it is bound, or until `until` (nominations.h).
  void offer_nomination(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                        const NodeName& nominated, Instant until);
  // filter answered this node. What the pod is to get there is reserved in the same way, once it is
  // nominated for the node. With `counted_until` it is reserved at once, and until then if the pod
  // is not nominated by then.
  void reserve(const DecidedPod& pod, NominatedPlacement placement, const NodeName& nominated,
               Instant until, std::optional<Instant> counted_until);
  struct Reservation {
    DecidedPod pod;
    NominatedPlacement placement;
  };
  // Reserves the cards of all pods in this way, and returns answers(). Nothing if one of them
  // was answered after `answers`: kube-scheduler may be about to bind what filter has answered.
  std::optional<std::uint64_t> reserve_all(std::vector<Reservation> pods, std::uint64_t answers,
                                           Instant until, Instant counted_until);
  // How often filter and preempt have answered a pod.
  std::uint64_t answers() const;
  // A bind of a pod of the group has begun: what filter has answered for the others is reserved in
  // the same way.
  void keep_group(const std::string& group, Instant now);
  // Ends what is reserved for the pod, which is not pending any more.
  void end_nomination(const PodUid& uid);
  // Notes that the watch shows the pod nominated for a node, or for none.
  void nominate(const PodUid& uid, const NodeName& node);
  void replace_nominated(const std::vector<Nominated>& nominated);

  // The nodes that filter has answered for pods of the group; some may be named twice.
  std::vector<NodeName> nodes_of_group(const std::string& group) const;

  // A binding of the pod that an earlier process has sent may still happen, on any node: `most` is
  // not available on any card to other pods, until the pod is bound, finished or deleted, or until
  // `until`. With a group that is so if the list of pods shows one of the group that is bound, and
  // they are available to the group.
  void keep_everywhere(const PodUid& uid, const Share& most, Instant until,
                       const std::string& group = {});
  void end_everywhere(const PodUid& uid);
  // filter has refused the pod: what is kept for it as a member of a group is of no use.
  void end_kept_for_group(const PodUid& uid);

 private:
  LedgerState& state_;
};

}  // namespace mgpu::extender
