// The messages of the scheduler extender protocol (kube-scheduler extender/v1/types.go, unchanged
// since 1.21).
//
// In requests the names of top-level members match without regard to case, because older extenders
// and schedulers differ; unknown members are ignored; null counts as absent. Replies use the names
// of types.go. Pure; any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {

// The arguments of filter and prioritize. Names point into the message, which it owns.
class ExtenderArgs {
 public:
  ExtenderArgs(ExtenderArgs&&) noexcept = default;
  ExtenderArgs& operator=(ExtenderArgs&&) noexcept = default;

  // Errors: not JSON, no Pod, a member of the wrong type, whole Nodes (nodeCacheCapable: false).
  static Result<ExtenderArgs> parse(std::string body);
  // What parse would read. The names must outlive the arguments.
  static ExtenderArgs of(kube::Pod pod, std::vector<std::string_view> names);

  const kube::Pod& pod() const { return pod_; }
  std::span<const std::string_view> node_names() const { return names_; }
  // No name has an escape in the message, so that none needs one in the reply.
  bool names_without_escapes() const { return !body_.empty() && unescaped_.empty(); }

 private:
  class Reader;
  ExtenderArgs() = default;

  std::string body_;  // padded, and so never stored in place: views stay valid when it is moved
  std::list<std::string> unescaped_;  // names that have escapes in the message
  kube::Pod pod_;
  std::vector<std::string_view> names_;
};

struct RefusedNode {
  std::string_view node;
  std::string_view sentence;
};

// What filter has found about a pod.
enum class FilterOutcome : std::uint8_t {
  kFits,
  kMayChange,        // it fits on no node, and a change that the ledger sees any moment may help
  kMayChangeLater,   // the same, but a search ended at its bound of steps, and would do so again,
                     // or the change may come on a node that was not sent
  kNeedsOtherCards,  // no pod that ends makes it fit, but other cards of a node may
  kRejected,
};

struct FilterReply {
  FilterOutcome outcome = FilterOutcome::kFits;
  std::vector<std::string_view> fitting;  // a subset of the request, in its order
  // At least as many as in `fitting`, see VerbOptions::candidate_nodes.
  std::size_t nodes_fitting = 0;
  std::vector<RefusedNode> failed;  // evictions may make the pod fit
  std::vector<RefusedNode> failed_and_unresolvable;
  std::optional<Rejection> rejection{};  // set if no node fits, and the request has nodes
  // If no node of the request fits: others that do, and that kube-scheduler may not have examined
  // (asked_nodes.h). Not all of them.
  std::vector<std::string> fitting_elsewhere;
  // Equal for pods to which `fitting_elsewhere` applies alike (replica_group_of in pod_request.h);
  // 0 if kube-scheduler has examined all nodes.
  std::uint64_t replica_group = 0;
  // A sentence about this pod, into which refusals point: of a pod that is refused on every node,
  // or with the models that there are.
  std::shared_ptr<const std::string> own_sentence;
};
// Writes all refusals to FailedAndUnresolvableNodes, since no eviction that kube-scheduler chooses
// helps: it looks for victims by its own filters, which have passed, finds none, and names the
// nodes in another order each time (kubernetes pkg/scheduler/framework/preemption, "expected at
// least one victim pod"). It would write that to the status of the pod, whose change makes it try
// the pod again at once. FailedNodes has the node that the pod is nominated for. Where the extender
// evicts pods for it (`is_evicting`) and the pod is sent without its nomination, it has all nodes
// of `failed`: kube-scheduler would clear the nomination.
std::string write_filter_reply(const FilterReply& reply, const ExtenderArgs& args,
                               bool is_evicting = false);

struct HostScore {
  std::string_view node;
  std::int64_t score = 0;  // 0 .. 10
};
std::string write_prioritize_reply(std::span<const HostScore> scores, const ExtenderArgs& args);

struct BindingArgs {
  PodRef pod;
  PodUid uid;
  NodeName node;
};
// Errors: not JSON; PodName, PodNamespace, PodUID or Node is absent or empty.
Result<BindingArgs> read_binding_args(std::string_view body);
// `error` is empty if the pod is bound.
std::string write_binding_reply(std::string_view error);

// The victims on one node.
struct NodeVictims {
  NodeName node;
  std::vector<PodUid> victims;
  std::int64_t pdb_violations = 0;
};
struct PreemptionArgs {
  kube::Pod pod;
  std::vector<NodeVictims> nodes;  // ascending by name
};
Result<PreemptionArgs> read_preemption_args(std::string_view body);
std::string write_preemption_reply(std::span<const NodeVictims> nodes);

}  // namespace mgpu::extender
