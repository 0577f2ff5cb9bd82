// The nodes of the cluster, their cards, and the claims of pods on them, with totals. Filled from
// the API server (consumers.h) and by bind; a relist restores all of it.
//
// A claim belongs to a pod by its uid. A pod has at most one bound claim, which only the watch adds
// and removes, and any number of assumed ones, each an attempt to bind whose outcome is not known
// yet. Every claim counts in full until it is removed, so that a pod counts twice rather than not
// at all while an outcome is not known.
//
// A bound claim keeps the cards that its pod was bound with (claim.h): later events of the pod
// change its labels and resources, and its drift.
//
// The ledger is used by rooms, so that each caller sees what it needs: changes by the watches and
// by bind are here; decisions() finds where a pod fits, reservations() keeps cards for pods that
// are to be bound, and reader() shows the rest.
//
// Thread-safe. There is one lock, under which nothing waits. Time is an argument.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/decisions.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/ledger/ledger_state.h"
#include "extender/ledger/reservations.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

struct Assumed {
  ClaimId id = 0;
  Placement placement;
};

class Ledger {
 public:
  Decisions& decisions() { return decisions_; }
  Reservations& reservations() { return reservations_; }
  const Reservations& reservations() const { return reservations_; }
  LedgerReader& reader() { return reader_; }
  const LedgerReader& reader() const { return reader_; }

  // --- nodes -------------------------------------------------------------------------------------

  // After a relist: removes all other nodes, then applies these. Reads may run in between. The same
  // holds for replace_pods. Neither may run concurrently with another update of nodes or pods.
  void replace_nodes(std::vector<NodeFacts> nodes);
  // Adds or changes the node. If the cards changed, the claims are counted again and expected
  // placements are removed.
  void apply_node(NodeFacts node);
  // The claims of its pods stay until the pods are removed, since the node may return.
  void remove_node(const NodeName& node);

  // --- pods --------------------------------------------------------------------------------------

  // After a relist: removes all other bound claims and non-GPU pods. Assumed claims of other pods
  // stay, since the list may be older than their bind. Returns the changes of drift, at most
  // kDriftChangesMax: the next event of a pod that is left out returns its change.
  // Not analyzed: only its steps hold the lock.
  std::vector<DriftChange> replace_pods(
      std::vector<Claim> claims, std::vector<NonGpuPod> non_gpu = {}) MGPU_NO_THREAD_ANALYSIS;
  // Confirms an assumed claim of the same uid, and removes other attempts of the pod. An attempt on
  // the same node with other cards stays until its outcome is known: it may be the binding, and the
  // annotations edited since.
  std::optional<DriftChange> apply_pod(Claim claim);
  // Counts in Node::resources_used until remove_pod. Claims of the pod are removed.
  void apply_non_gpu(NonGpuPod pod);
  // For a pod that has finished or was deleted: removes it and its attempts.
  void remove_pod(const PodUid& uid);

  // --- bind --------------------------------------------------------------------------------------

  // Places `claim`, which has no placement, on its node and counts it as used, in one step, also
  // where the pod has other claims. Cards that are reserved for nominated pods are not free to it.
  // A refusal changes nothing. The pod's expected placement is removed in any case, and what is
  // reserved for it once it is placed: the same cards do not become free. `price_snapshot` may be
  // null.
  std::variant<Assumed, Reason> assume(Claim claim, const Policy& card_policy, Instant now,
                                       const PriceSnapshot* price_snapshot = nullptr);
  // The API server accepted the binding: removes the pod's other attempts. The claim stays assumed
  // until the watch shows the pod bound. An id that no longer exists is ignored: the watch was
  // faster.
  void bound(ClaimId id, Instant now);
  // Removes the claim of an attempt that did not bind the pod. An id that no longer exists is
  // ignored, and so is a bound claim, which only the watch releases.
  void forget(ClaimId id);
  // The same, and the pod may be bound there soon: if it is bound with others of a group, its cards
  // are reserved for it for kGroupRetryLife, since the others may be bound already, but at most
  // for kGroupRetriesLife after the first such bind.
  void forget_for_now(ClaimId id, Instant now);
  // The pod was read from the API server, bound as in `claim`, which replaces all assumed claims of
  // the pod, and stays assumed until the watch shows the pod. If the watch has shown it bound
  // before, only the assumed claims are removed.
  void assume_bound(Claim claim, Instant now);
  struct AssumedClaim {
    ClaimId id;
    PodRef pod;
    PodUid uid;
    NodeName node;
  };
  // Returns the claims that were assumed, or accepted by the API server, before `before`. Their
  // pods are to be read from the API server.
  std::vector<AssumedClaim> assumed_before(Instant before) const;

 private:
  LedgerState state_;
  LedgerReader reader_{state_};
  Reservations reservations_{state_};
  Decisions decisions_{state_};
};

}  // namespace mgpu::extender
