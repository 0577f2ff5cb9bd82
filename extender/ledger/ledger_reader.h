// What the ledger knows, as copies and visits. What has ended by time is removed by the functions
// that are given the time.
//
// Thread-safe. Time is an argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/decided_pod.h"
#include "extender/ledger/node_record.h"
#include "extender/placement/cluster.h"

namespace mgpu::extender {

struct LedgerState;

// A copy, for inspection.
struct NodeView {
  Node node;
  std::string problem;  // NodeFacts::problem, or that the node is deleted while it has pods
  std::vector<CardIndex> overfull;  // cards with more in use than their capacity, ascending
  Healths healths;
  bool cordoned = false;            // the node, by its spec
  std::vector<kube::Taint> taints;  // that keep pods from it
  std::vector<ClaimView> claims;
};

// What an administrator has to repair on a node that the API server has.
struct NodeProblem {
  NodeName node;
  std::string problem;              // NodeFacts::problem; may be empty
  std::vector<CardIndex> overfull;  // cards with more in use than their capacity
};

// Differs from an earlier one of the same node if its cards, its problem or the claims on it have
// changed.
struct NodeVersion {
  NodeSlot slot = 0;
  std::uint64_t changes = 0;
  bool operator==(const NodeVersion&) const = default;
};

// A copy, for a decision about one pod without the lock.
struct NodeForPod {
  Node node;
  // The node in which what is reserved for nominated pods is used; empty if nothing is.
  std::optional<Node> with_reservations;
  Healths healths;

  const Node& available() const { return with_reservations ? *with_reservations : node; }
};

struct Counts {
  std::size_t nodes = 0;
  std::size_t cards = 0;
  std::size_t assumed = 0;
  std::size_t bound = 0;
  std::size_t drifting = 0;  // claims with drift
  std::size_t overfull = 0;  // cards with more used than their capacity
  std::size_t expected = 0;
  std::size_t nominated = 0;           // pods for which cards are reserved
  std::uint64_t search_steps = 0;      // that pods of several containers have taken
  std::uint64_t searches_limited = 0;  // decisions that the allowance of their namespace ended
};

// Valid only within LedgerReader::read, which holds the lock. (The thread-safety analysis cannot
// see that.)
class View {
 public:
  // Null if the API server has no such node, or the watch has not delivered it yet.
  const Node* find(std::string_view node) const MGPU_NO_THREAD_ANALYSIS;
  // A copy in which cards that are reserved for nominated pods are used. Empty if `find` is
  // null.
  std::optional<Node> find_for(std::string_view node,
                               const DecidedPod& pod) const MGPU_NO_THREAD_ANALYSIS;
  // The claims on a node, bound and assumed; the pointers are valid as long as the view.
  std::vector<const ClaimView*> claims_on(std::string_view node) const MGPU_NO_THREAD_ANALYSIS;
  // A non-GPU pod on that node; empty if there is no such pod there.
  std::optional<NonGpuPod> non_gpu_on(std::string_view node,
                                      const PodUid& uid) const MGPU_NO_THREAD_ANALYSIS;
  // The pod is known, and not on that node.
  bool elsewhere(std::string_view node, const PodUid& uid) const MGPU_NO_THREAD_ANALYSIS;

 private:
  friend class LedgerReader;
  explicit View(LedgerState& state) : state_(state) {}
  LedgerState& state_;
};

class LedgerReader {
 public:
  // `state` outlives the reader.
  explicit LedgerReader(LedgerState& state) : state_(state) {}
  LedgerReader(const LedgerReader&) = delete;
  LedgerReader& operator=(const LedgerReader&) = delete;

  // Runs `read` under the lock; it must only compute. Expected placements and
  // reservations that ended before `now` are removed first.
  void read(Instant now, const std::function<void(const View&)>& read);

  // Visits every node that the API server has, in no order, under the lock for kNodeCopiesMax nodes
  // at a time. Nodes that are added or removed meanwhile may be left out. `go_on` is called in
  // between; once it returns false, the visit ends.
  void visit_in_steps(
      const std::function<void(const Node&)>& visit,
      const std::function<bool()>& go_on = [] { return true; }) const;

  // Includes nodes that the API server does not have while pods are bound to them.
  std::vector<NodeName> node_names() const;
  std::size_t node_count() const;
  // Calls `visit` for each of node_names(), in no order. It must only compute, since it runs under
  // the lock, which is released in between.
  void visit_versions(
      const std::function<void(const NodeName& node, const NodeVersion& version)>& visit) const;
  std::optional<NodeView> node(const NodeName& name) const;
  // Nothing if the API server has no such node.
  std::optional<NodeForPod> node_for(std::string_view name, const DecidedPod& pod) const;
  // Returns what keeps a pod with these rules from a node. Nothing if the API server has no such
  // node.
  std::optional<Gate> gate_of(std::string_view node, const kube::NodeRules& rules) const;
  // Returns the bound one of several claims of this name, else the latest attempt.
  std::optional<ClaimView> claim(const PodRef& pod) const;
  // Claims with drift, the first `most` in the order of pods.
  std::vector<ClaimView> drifting(std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  // The first `most` in no order.
  std::vector<NodeProblem> nodes_with_problems(std::size_t most) const;
  Counts counts() const;
  // Increases whenever cards may have become free: a claim was released, or a node's cards are new
  // or changed, or are no longer reserved for a nominated pod. The second form ends first what ends
  // before `now`.
  std::uint64_t releases() const;
  std::uint64_t releases(Instant now);
  // Increases whenever a node has other cards, or offers pods something else.
  std::uint64_t card_changes() const;

 private:
  LedgerState& state_;
};

}  // namespace mgpu::extender
