// What the ledger's lock protects, and the steps that its calls are made of. Each step leaves
// totals and indices right. Part of the ledger.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "extender/ledger/claim_table.h"
#include "extender/ledger/decision_cache.h"
#include "extender/ledger/expected_placements.h"
#include "extender/ledger/ledger.h"
#include "extender/ledger/name_index.h"
#include "extender/ledger/node_record.h"
#include "extender/ledger/node_slots.h"

namespace mgpu::extender {

struct Ledger::State {
  std::unordered_map<std::string, NodeRecord> nodes;
  NodeSlots slots;    // of all of them
  NameIndex by_name;  // the same
  ClaimTable claims;
  Expectations expectations;
  std::uint64_t releases = 0;
  DecisionCache<FitCache> fits;
  DecisionCache<ScoreCache> scores;

  struct NonGpu {
    NodeRecord* home;
    NodeResources host;
  };
  std::unordered_map<PodUid, NonGpu> plain;  // pods that ask for no cards

  NodeRecord* find(std::string_view node);
  // Null where the API server has no such node, though pods may be on it.
  NodeRecord* find_present(std::string_view node);

  void apply(NodeFacts facts);
  // The record stays while claims do.
  void remove(NodeRecord& record);

  Entry& insert(Claim claim, Phase phase, Instant touched);
  void release(Entry& entry);
  // The bound pod and every attempt.
  void release_all(const PodUid& uid);
  // The watch shows the pod bound: this claim and no other.
  void confirm(Claim claim);
  void set_plain(NonGpuPod pod);
  // Unknown uids are ignored.
  void drop_plain(const PodUid& uid);

 private:
  NodeRecord& record_of(const NodeName& node);
  NodeRecord& make_record(const NodeName& node);
  void erase_if_empty(NodeRecord& record);
};

}  // namespace mgpu::extender
