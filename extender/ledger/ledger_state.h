// What the ledger knows of nodes and pods, under one lock, and the changes of which each leaves
// totals and indices consistent. Part of the ledger: its rooms (ledger.h) share one state, and take
// the lock themselves, under which nothing waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/claim_table.h"
#include "extender/ledger/expected_placements.h"
#include "extender/ledger/node_index.h"
#include "extender/ledger/node_record.h"
#include "extender/ledger/nominations.h"
#include "extender/ledger/search_allowances.h"
#include "extender/ledger/text_hash.h"
#include "extender/placement/cluster.h"

namespace mgpu::extender {

struct LedgerState {
  struct NonGpu {
    NodeRecord* record;
    NodeResources resources;
    bool anti_affinity;
  };

  NodeRecord* find(std::string_view node) const MGPU_REQUIRES(mutex);
  // Null if the API server has no such node, though pods may be on it.
  NodeRecord* find_present(std::string_view node) const MGPU_REQUIRES(mutex);
  NodeRecord& record_of(const NodeName& node) MGPU_REQUIRES(mutex);
  void erase_if_empty(NodeRecord& record) MGPU_REQUIRES(mutex);
  void apply(NodeFacts facts) MGPU_REQUIRES(mutex);
  void remove(NodeRecord& record) MGPU_REQUIRES(mutex);
  Entry& insert(Claim claim, Phase phase, Instant touched) MGPU_REQUIRES(mutex);
  void release(Entry& entry) MGPU_REQUIRES(mutex);
  void release_all(const PodUid& uid) MGPU_REQUIRES(mutex);
  // The watch shows the pod bound: this claim, with the cards that the pod was bound with, replaces
  // the others of the pod.
  Entry& confirm(Claim claim) MGPU_REQUIRES(mutex);
  // A copy in which what is reserved for nominated pods is used.
  Node with_reservations(const Node& node, const DecidedPod& pod) const MGPU_REQUIRES(mutex);
  void set_non_gpu(NonGpuPod pod) MGPU_REQUIRES(mutex);
  void remove_non_gpu(const PodUid& uid) MGPU_REQUIRES(mutex);

  // Visits every record, also those of nodes that are gone while pods are bound to them. `lock` is
  // released after every kNodesHeldMax slots, so that records may be added and removed in between.
  // Not analyzed, because `lock` holds mutex, and the analysis cannot connect the two.
  void each_record(MutexLock& lock, const std::function<void(NodeRecord&)>& visit) const
      MGPU_REQUIRES(mutex) MGPU_NO_THREAD_ANALYSIS;

  mutable Mutex mutex;
  std::unordered_map<std::string, NodeRecord, TextHash, TextEqual> nodes MGPU_GUARDED_BY(mutex);
  NodeIndex index MGPU_GUARDED_BY(mutex);  // of nodes
  ClaimTable claims MGPU_GUARDED_BY(mutex);
  std::map<PodUid, NonGpu> non_gpu MGPU_GUARDED_BY(mutex);
  ExpectedPlacements expected MGPU_GUARDED_BY(mutex);
  Nominations nominations MGPU_GUARDED_BY(mutex);
  SearchAllowances allowances MGPU_GUARDED_BY(mutex);
  // Increases whenever cards may have become free, but for what ends in `nominations`.
  std::uint64_t releases MGPU_GUARDED_BY(mutex) = 0;
  // Increases whenever a node has other cards, or offers pods something else.
  std::uint64_t card_changes MGPU_GUARDED_BY(mutex) = 0;
};

// Null if none of the claims of a pod is bound.
Entry* bound_entry(const std::vector<Entry*>& claims);

}  // namespace mgpu::extender
