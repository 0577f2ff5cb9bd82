// A simple and slow implementation of the ledger for comparison: flat lists, from which every total
// is computed on each call.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extender/ledger/ledger.h"

namespace mgpu::test {

class ReferenceLedger {
 public:
  void replace_nodes(std::vector<extender::NodeFacts> nodes);
  void apply_node(const extender::NodeFacts& node);
  void remove_node(const NodeName& node);

  void replace_pods(const std::vector<extender::Claim>& claims);
  void apply_pod(const extender::Claim& claim);
  void remove_pod(const PodUid& uid);

  // The expected result of assume(); if it is a placement, assumed() follows.
  std::variant<Placement, extender::Reason> answer(const extender::Claim& claim,
                                                   const extender::Policy& policy, Instant now);
  void assumed(extender::ClaimId id, extender::Claim claim, Instant now);
  void bound(extender::ClaimId id, Instant now);
  void forget(extender::ClaimId id);

  void expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
              const Placement& placement, Instant now, Instant until);
  void end_expectation(const PodUid& uid);
  void expire(Instant now);

  // The claim of a pod that apply_pod or replace_pods has shown bound, with its cards and as if its
  // annotations were not edited. Null where there is none.
  const extender::Claim* bound_claim(const PodUid& uid) const;

  // The node with the totals of its cards.
  extender::Node node(const NodeName& name) const;
  std::vector<NodeName> node_names() const;
  std::vector<extender::ClaimId> assumed_before(Instant before) const;
  extender::Counts counts() const;
  // Empty if `ledger` has the same content.
  std::string difference(const extender::Ledger& ledger) const;

 private:
  struct Held {
    extender::ClaimId id;  // 0: bound
    extender::Claim claim;
    Instant touched;
    bool accepted = false;
    bool edited = false;  // the annotations name other cards than those of the claim
  };
  struct Expected {
    PodUid uid;
    NodeName node;
    GpuRequest request;
    Placement placement;
    Instant until;
  };

  void end_expectations_on(const NodeName& node);
  // What the pod was bound with, if that is known.
  const Held* bound_with(const extender::Claim& shown) const;
  // With respect to the current cards of the node.
  std::optional<DriftKind> drift_of(const Held& held) const;
  void add_held(extender::Node& node, bool unplaced) const;
  extender::Node empty(const NodeName& name) const;
  std::string difference_of(const NodeName& name, const extender::NodeView& view) const;

  std::map<NodeName, extender::NodeFacts> nodes_;
  std::vector<Held> held_;
  std::vector<Expected> expected_;
};

}  // namespace mgpu::test
