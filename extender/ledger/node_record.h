// A node in the ledger: its cards with totals, and the claims on it. Part of the ledger; used under
// its lock.
//
//   card.used      = sum of the claims' holds on it; a claim without a placement holds on each card
//                    the most that its pod may hold of one
//   card.expected  = sum of the expected placements on it (expected_placements.h)
//   card.uncertain = for some claim of the node even that is not known
//   pods_counted   = number of claims and of non-GPU pods
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/node_index.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"

namespace mgpu::extender {

// A claim is one attempt to bind a pod, or a bound pod.
using ClaimId = std::uint64_t;

enum class Phase : std::uint8_t { kAssumed, kBound };

struct ClaimView {
  Claim claim;
  Phase phase = Phase::kBound;
  std::vector<CardHold> holds;
};

// What is wrong with cards, such as "XID 79", by those that are not healthy. No decision needs it.
using Healths = std::map<CardIndex, std::string>;

struct NodeRecord;

// A claim in the ledger, which keeps its address.
struct Entry {
  ClaimId id = 0;
  ClaimView view;
  Instant touched{};      // of an assumed claim: when it was assumed, or accepted by the API server
  bool accepted = false;  // of an assumed claim: the API server accepted its binding
  // What Nominations::latest_of() returned before the claim was assumed.
  Instant latest = Instant::max();
  std::optional<DriftKind> reported{};  // of a bound claim: the drift of the last DriftChange
  NodeRecord* record = nullptr;
};

struct NodeRecord {
  NodeIndex* index = nullptr;  // set by the ledger
  NodeSlot slot = 0;
  Node node;
  // Whether the API server has the node. Otherwise the record exists because of pods on it.
  bool present = false;
  std::string problem;         // NodeFacts::problem
  Healths healths;             // those of the facts
  NodeGates gates;             // NodeFacts::gates, which no decision about cards depends on
  std::vector<Entry*> claims;  // in the order of arrival
  std::size_t blocking = 0;    // the number of claims that make all cards uncertain
  std::size_t drifting = 0;    // the number of claims with drift
  std::size_t expectations = 0;
  std::size_t non_gpu_pods = 0;

  // To be called with every change that may affect a decision.
  void changed() { index->changed(slot); }
  bool visible() const { return present || !claims.empty(); }
  bool empty() const { return !visible() && non_gpu_pods == 0; }
};

// What a pod that may hold `most` of any card holds of this one: no more than the card has, and all
// of its compute from 100 % on (ContainerRequest::on).
Share at_most_of(const Card& card, const Share& most);

// Whether the cards or the allocatable differ from the record, or the node was not present.
bool changes(const NodeRecord& record, const NodeFacts& facts);
// Replaces the cards and counts every claim again. REQUIRES: no expected placements on the node.
void set_facts(NodeRecord& record, NodeFacts facts);
// Removes the cards and keeps the claims, which are counted again if the node returns. REQUIRES: no
// expected placements on the node.
void set_absent(NodeRecord& record);

// Entry::record is set from add until remove.
void add(NodeRecord& record, Entry& entry);
void remove(Entry& entry);

void add_non_gpu(NodeRecord& record, const NodeResources& resources);
void remove_non_gpu(NodeRecord& record, const NodeResources& resources);

void add_expected(NodeRecord& record, const std::vector<CardHold>& holds);
void remove_expected(NodeRecord& record, const std::vector<CardHold>& holds);

// Whether the totals and counts of the record equal those computed anew from its claims. O(claims +
// cards); for checks.
bool totals_are_consistent(const NodeRecord& record);

// The cards with more used than their capacity. Claims without a placement do not count, since on
// most cards they hold nothing.
std::vector<CardIndex> overfull_cards(const NodeRecord& record);

}  // namespace mgpu::extender
