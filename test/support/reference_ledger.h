// The ledger written down as simply as it can be: flat lists, and every total computed from them
// anew whenever it is asked for. Slow, and easy to believe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extender/ledger/ledger.h"

namespace mgpu::test {

class ReferenceLedger {
 public:
  void replace_nodes(std::vector<ledger::NodeFacts> nodes);
  void apply_node(const ledger::NodeFacts& node);
  void remove_node(const NodeName& node);

  void replace_pods(const std::vector<ledger::Claim>& claims);
  void apply_pod(const ledger::Claim& claim);
  void remove_pod(const PodUid& uid);

  // What the ledger should answer to assume(); to be followed by assumed() where it fits.
  std::variant<Placement, placement::Reason> answer(const ledger::Claim& claim,
                                                    const placement::Policy& policy, Instant now);
  void assumed(ledger::ClaimId id, ledger::Claim claim, Instant now);
  void bound(ledger::ClaimId id, Instant now);
  void forget(ledger::ClaimId id);

  void expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
              const Placement& placement, Instant now, Instant until);
  void end_expectation(const PodUid& uid);
  void expire(Instant now);

  // Cards with their totals.
  placement::Node node(const NodeName& name) const;
  std::vector<NodeName> node_names() const;
  std::vector<ledger::ClaimId> assumed_before(Instant before) const;
  ledger::Counts counts() const;
  // "" where `ledger` shows the same.
  std::string difference(const ledger::Ledger& ledger) const;

 private:
  struct Held {
    ledger::ClaimId id;  // 0: bound
    ledger::Claim claim;
    Instant touched;
  };
  struct Expected {
    PodUid uid;
    NodeName node;
    GpuRequest request;
    Placement placement;
    Instant until;
  };

  void end_expectations_on(const NodeName& node);
  // As it stands against the node's cards now.
  ledger::Drift drift_of(const ledger::Claim& claim) const;
  std::string difference_of(const NodeName& name, const ledger::NodeView& view) const;

  std::map<NodeName, ledger::NodeFacts> nodes_;
  std::vector<Held> held_;
  std::vector<Expected> expected_;
};

}  // namespace mgpu::test
