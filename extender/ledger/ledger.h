// The one shared mutable thing: nodes -> cards -> shares, with running totals. Fed by two informers
// (consumers.h) and by bind; everything in it can be rebuilt by a relist.
//
// Claims are by uid. A pod may have at most one bound claim, which only the watch makes and takes
// away, and beside it any number of assumed ones, each an attempt to bind whose outcome is not
// known yet. Every claim counts in full until it goes: a pod in doubt is rather counted twice than
// not.
//
// Thread-safe. One lock; no call waits while holding it. Time enters as an argument.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/limits.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// One attempt to bind; a pod whose earlier attempt is in doubt may have several.
using ClaimId = std::uint64_t;

struct Assumed {
  ClaimId id = 0;
  Placement placement;
};

enum class Phase : std::uint8_t { kAssumed, kBound };

// What stands on a card or a node, for inspection; copies.
struct ClaimView {
  Claim claim;
  Phase phase = Phase::kBound;
  std::vector<CardHold> holds;
};
struct NodeView {
  Node node;
  std::string problem;  // NodeFacts::problem, or that the node is gone while pods remain
  std::vector<ClaimView> claims;
};

struct Counts {
  std::size_t nodes = 0;
  std::size_t cards = 0;
  std::size_t assumed = 0;
  std::size_t bound = 0;
  std::size_t drifting = 0;  // claims whose drift is not kNone
  std::size_t overfull = 0;  // cards with more used than they have
  std::size_t expected = 0;
};

// How good a node is for a pod.
struct Scored {
  bool fits = false;  // and only then the others mean something
  bool beside_expected = true;
  Score score = 0;
  bool operator==(const Scored&) const = default;
};

// Valid inside Ledger::read only.
class View {
 public:
  virtual ~View() = default;
  // why_not for each of `nodes`, which share one budget of kFilterStepsMax.
  // Nodes that have not changed since a pod of the same shape was looked at are not looked at
  // again.
  virtual std::vector<std::optional<Reason>> why_not(std::span<const std::string_view> nodes,
                                                     const GpuRequest& request) const = 0;
  // place for each of `nodes` by `policy.card`, and what `policy.node` says of it; the
  // rest as above. Policies that draw (Policy::per_pod) are asked every time.
  virtual std::vector<Scored> score(std::span<const std::string_view> nodes,
                                    const PlacementContext& context,
                                    const PolicyChoice& policy) const = 0;
  // Null where the API server has no such node, or has not told of it yet.
  virtual const Node* find(std::string_view node) const = 0;
  // Every node that the API server has; in no order.
  virtual void each(const std::function<void(const Node&)>& see) const = 0;
  // The claims on a node, bound and assumed; the pointers live as long as the view.
  virtual std::vector<const ClaimView*> claims_on(std::string_view node) const = 0;
};

class Ledger {
 public:
  Ledger();
  ~Ledger();

  // --- fed by the node informer ------------------------------------------------------------------

  // Nodes become exactly these: first those that are gone go, then each of these is applied, and
  // reads may come in between. The same holds for replace_pods. Neither runs beside another call of
  // its informer.
  void replace_nodes(std::vector<NodeFacts> nodes);
  // Where the cards changed, the node's claims are counted anew and its expectations end.
  void apply_node(NodeFacts node);
  // Its pods' claims stay until they go, without cards: the node may come back.
  void remove_node(const NodeName& node);

  // --- fed by the pod informer -------------------------------------------------------------------

  // Bound claims and plain pods become exactly these. Assumed claims of pods not among them stay:
  // the list may be older than their bind.
  void replace_pods(std::vector<Claim> claims, std::vector<NonGpuPod> plain = {});
  // Confirms an assumed claim of the same uid, and drops other attempts of it.
  void apply_pod(Claim claim);
  // Counts in Node::resources_used until remove_pod. Its assumed claims, were there any, go.
  void apply_non_gpu(NonGpuPod pod);
  // The pod has finished or is gone: drops it and its attempts.
  void remove_pod(const PodUid& uid);

  // --- bind --------------------------------------------------------------------------------------

  // Places `claim` (without placement) on its node and counts it as used, in one step, whatever the
  // pod holds already. Refusals change nothing. Ends the pod's expectation either way.
  // `price snapshot` is what the policy may know of the pods to come; null: nothing.
  std::variant<Assumed, Reason> assume(Claim claim, const Policy& card_policy, Instant now,
                                       const PriceSnapshot* price_snapshot = nullptr);
  // The API server took the binding: drops the pod's other attempts. The claim stays assumed until
  // the watch shows the pod, unless it has by now. Unknown ids are ignored: the watch was faster.
  void bound(ClaimId id, Instant now);
  // The pod is known not to be bound by this attempt. Unknown ids are ignored: what the watch has
  // confirmed, only the watch releases.
  void forget(ClaimId id);
  // Assumed claims that were last touched before `before`, to be read again at the API server.
  struct InDoubt {
    ClaimId id;
    PodRef pod;
    PodUid uid;
    NodeName node;
  };
  std::vector<InDoubt> assumed_before(Instant before) const;

  // --- expected placements -----------------------------------------------------------------------

  // Soft: counts in Card::expected until `until`, the pod's bind, its next expectation or its end,
  // or until the node's cards change. At most kExpectedPlacementsMax: the first to end makes
  // room. A node that is not there is ignored.
  void expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
              const Placement& placement, Instant now, Instant until);
  void end_expectation(const PodUid& uid);

  // --- read --------------------------------------------------------------------------------------

  // Runs `read` under the lock: it must only compute. Expectations that ended before `now` are
  // dropped first.
  void read(Instant now, const std::function<void(const View&)>& read);

  // Finds what View::score will say by `price snapshot`, which is not in use yet, for pods of the
  // shapes that were asked for lately: the first that are asked about by it need not wait. Takes
  // long, and holds the lock for a few nodes at a time; nothing comes of it where `go_on` says no.
  // `price snapshot` lives as long as it is asked about.
  void score_ahead(const PriceSnapshot& price_snapshot, const std::function<bool()>& go_on);

  // Nodes that are gone or not seen yet are among them while pods are bound to them.
  std::vector<NodeName> node_names() const;
  std::optional<NodeView> node(const NodeName& name) const;
  // Of several by this name the bound one, else the latest attempt.
  std::optional<ClaimView> claim(const PodRef& pod) const;
  std::vector<ClaimView> drifting() const;
  Counts counts() const;
  // Rises whenever cards may have come free: a claim released, a node's cards new or changed.
  std::uint64_t releases() const;

 private:
  struct State;
  mutable Mutex mutex_;
  std::unique_ptr<State> state_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
